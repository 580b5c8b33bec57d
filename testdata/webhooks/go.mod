module muster/testdata/webhooks

go 1.26.0

require (
	github.com/go-playground/webhooks/v6 v6.4.0
	github.com/gogits/go-gogs-client v0.0.0-20200905025246-8bb8a50cb355
	muster v0.0.0
)

replace muster => ../..

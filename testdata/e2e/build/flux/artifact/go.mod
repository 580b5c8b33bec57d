module github.com/fluxcd/pkg/artifact

go 1.26.0

require (
	github.com/cyphar/filepath-securejoin v0.6.1
	github.com/fluxcd/pkg/apis/meta v1.30.2
	github.com/fluxcd/pkg/sourceignore v0.18.0
	github.com/opencontainers/go-digest v1.0.0
	github.com/spf13/pflag v1.0.10
	k8s.io/apimachinery v0.36.2
)

replace github.com/opencontainers/go-digest => github.com/opencontainers/go-digest v1.0.1-0.20220411205349-bde1400a84be

package branch_test

import (
	"net/http"
	"testing"
	"time"

	"muster/gitops/branch"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	const date = "Fri, 21 Nov 2025 02:30:00 GMT"
	for _, c := range []struct {
		value, date string
		want        time.Duration
		known       bool
	}{
		{"0", "", 0, true},
		{"30", "", 30 * time.Second, true},
		{"3601", "", time.Hour, true},
		{"99999999999999999999999", "", time.Hour, true},
		{"Fri, 21 Nov 2025 02:30:50 GMT", date, 50 * time.Second, true},
		{"Fri, 21 Nov 2025 09:30:00 GMT", date, time.Hour, true},
		{"Fri, 21 Nov 2025 02:29:00 GMT", date, 0, true},
		{"Fri, 21 Nov 2025 02:30:50 GMT", "", 0, false},
		{"", date, 0, false},
		{"-1", date, 0, false},
		{"+5", date, 0, false},
		{"1.5", date, 0, false},
		{"soon", date, 0, false},
	} {
		got, known := branch.RetryAfter(http.Header{"Retry-After": {c.value}, "Date": {c.date}})
		if got != c.want || known != c.known {
			t.Errorf("%q at %q: %s, %t, want %s, %t", c.value, c.date, got, known, c.want, c.known)
		}
	}
}

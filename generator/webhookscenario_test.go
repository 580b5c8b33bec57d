package generator_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	"muster/generator"
	"muster/generator/buildkite/fakebuildkite"
	"muster/generator/webhook"
	"muster/gitops/leaktest"
)

// gatherTime is how long a call waits for others that come with it: cmd/muster's.
const gatherTime = 250 * time.Millisecond

// hookSecret is the secret of all webhooks: the log must not have it.
const hookSecret = leaktest.GitPassword

// hookShape is what the webhooks of a world are like.
type hookShape struct {
	on bool
	// every is the least time between two ticks that a call brings, and between two
	// requests for the metrics.
	every time.Duration
	// Shares of the events: no page promises that one arrives, or in which order.
	lost, twice, overdue, held, forged float64
	longest                            time.Duration // that one is late or under way
	host                               webhook.Source
}

// drawHooks lets a third of the worlds be told by webhooks, from dice of its own.
func drawHooks(s *shape) {
	r := rand.New(rand.NewPCG(s.seed, 12))
	h := hookShape{on: r.IntN(3) == 0, every: []time.Duration{3, 5, 10, 30}[r.IntN(4)] * time.Second}
	h.lost, h.twice, h.overdue, h.held, h.forged = upTo(r, 1), upTo(r, 0.3), upTo(r, 0.5), upTo(r, 0.2), upTo(r, 0.5)
	h.longest = []time.Duration{5 * time.Second, time.Minute, 10 * time.Minute}[r.IntN(3)]
	h.host = webhook.Sources()[1+r.IntN(4)]
	s.hooks = h
	if h.on && s.http && r.IntN(2) == 0 {
		s.userLimit = 50 // docs apis/rest_api/rate_limits.md
	}
	if h.on { // who is told can look less often
		s.every = min(s.every*time.Duration(1+r.IntN(4)), max(s.every, 2*time.Minute))
	}
}

// problemState draws what becomes of an event, until all is well.
func (w *scenario) fault(int) (t fakebuildkite.WebhookFault) {
	hit := func(rate float64) bool { return w.hooked.Float64() < rate }
	long := func() time.Duration { return time.Duration(w.hooked.Int64N(int64(w.hooks.longest))) }
	if !w.healed.IsZero() {
		return t
	}
	t = fakebuildkite.WebhookFault{Lost: hit(w.hooks.lost), Twice: hit(w.hooks.twice), Forged: hit(w.hooks.forged)}
	if hit(w.hooks.overdue) {
		t.Delay = long()
	}
	if hit(w.hooks.held) {
		t.Held = long()
	}
	return t
}

// beginHooks adds the webhooks of Buildkite, one for each process.
func (w *scenario) beginHooks() {
	w.hooked = rand.New(rand.NewPCG(w.seed, 13))
	if !w.hooks.on {
		return
	}
	for _, m := range w.musters {
		w.server.AddWebhook(fakebuildkite.Webhook{Token: hookSecret, Fault: w.fault, Deliver: m.deliver})
	}
}

// newReceiver is the real receiver of a process that begins.
func (m *muster) newReceiver() *webhook.Receiver {
	secret := func() ([]byte, error) { return []byte(hookSecret), nil }
	return webhook.New(webhook.Config{
		BuildkiteSecret: secret, GitSecret: secret, Organisation: "acme", Branch: "main", Now: m.w.server.Now, Log: leaktest.Log(m.w.audit.fail, nil),
	})
}

// deliver brings a request to a process, and holds it to what must become of it.
func (m *muster) deliver(r *http.Request) {
	if m.down {
		return
	}
	want := m.expected(r)
	mux, answer := http.NewServeMux(), httptest.NewRecorder()
	m.receiver.AddTo(mux)
	mux.ServeHTTP(answer, r)
	got := webhook.Result(strings.TrimSpace(answer.Body.String()))
	m.w.seen["webhook "+string(got)]++
	if want != "" && got != want && (want != webhook.Triggered || got != webhook.Ignored) {
		m.w.audit.failf("%s: a webhook is %s, and should be %s: %v", m.name, got, want, r.Header)
	}
	if got == webhook.Triggered {
		m.w.trace("%s: is told %s", m.name, r.Header.Get("X-Buildkite-Event"))
		m.noteCall()
	}
}

// expected is what must become of a request: it is forged, old, was seen before, or it
// calls, unless what it tells cannot matter.
func (m *muster) expected(r *http.Request) webhook.Result {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	now, given, signed := m.w.server.Now(), "", string(body)
	var sent time.Time
	if r.URL.Path == webhook.BuildkitePath {
		var stamp string
		stamp, given, _ = strings.Cut(strings.TrimPrefix(r.Header.Get("X-Buildkite-Signature"), "timestamp="), ",signature=")
		seconds, _ := strconv.ParseInt(stamp, 10, 64)
		sent, signed = time.Unix(seconds, 0), stamp+"."+signed
	} else {
		for _, header := range []string{"X-Gitea-Signature", "X-Hub-Signature-256", "X-Signature", "X-Gitlab-Token"} {
			if v := r.Header.Get(header); v != "" {
				given = strings.TrimPrefix(v, "sha256=")
			}
		}
	}
	replays := r.Header.Get("X-Gitlab-Token") == "" && r.Header.Get("X-Signature") == ""
	before, seen := m.seen[signed]
	switch {
	case given != hookSum(signed) && given != hookSecret:
		return webhook.Forged
	case !sent.IsZero() && now.Truncate(time.Second).Sub(sent).Abs() > webhook.MaxAge:
		return webhook.Outdated
	case replays && seen && now.Sub(before) < webhook.MaxAge:
		return webhook.Replayed
	case replays && seen:
		return "" // it may be remembered longer
	}
	m.seen[signed] = now
	return webhook.Triggered
}

// hookSum is HMAC-SHA256 in hexadecimal.
func hookSum(text string) string {
	mac := hmac.New(sha256.New, []byte(hookSecret))
	_, _ = io.WriteString(mac, text)
	return hex.EncodeToString(mac.Sum(nil))
}

// notifyPush has the git host tell each process of a push, as it signs that: for the headers
// see generator/webhook.
func (w *scenario) notifyPush(pushed []*commit) {
	if !w.hooks.on {
		return
	}
	body := fmt.Sprintf(`{"ref":"refs/heads/main","after":%q,"pusher":{"name":%q}}`, pushed[len(pushed)-1].id, pushed[0].who)
	for _, m := range w.musters {
		t := w.fault(0)
		if t.Lost {
			continue
		}
		send := func() { m.deliver(w.pushRequest(body, t.Forged)) }
		at := w.server.Now().Add(t.Delay + t.Held + time.Duration(w.hooked.Int64N(int64(3*time.Second))))
		w.server.At(at, send)
		if t.Twice {
			w.server.At(at.Add(t.Held), send)
		}
	}
}

func (w *scenario) pushRequest(body string, forged bool) *http.Request {
	r := httptest.NewRequest(http.MethodPost, webhook.GitPath, strings.NewReader(body))
	sum, token := hookSum(body), hookSecret
	if forged {
		sum, token = hookSum(body+" "), "a stranger's"
	}
	switch w.hooks.host {
	case webhook.GitHub:
		r.Header.Set("X-GitHub-Event", "push")
		r.Header.Set("X-Hub-Signature-256", "sha256="+sum)
	case webhook.Gitea:
		r.Header.Set("X-Gitea-Event", "push")
		r.Header.Set("X-Gitea-Signature", sum)
	case webhook.GitLab:
		r.Header.Set("X-Gitlab-Event", "Push Hook")
		r.Header.Set("X-Gitlab-Token", token)
	default:
		r.Header.Set("X-Signature", "sha256="+sum)
	}
	return r
}

var _ generator.Watcher = (*muster)(nil)

package evidence

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"muster/generator/buildkite/fakebuildkite"
)

// simulatedAgents start agents that speak to a simulated Buildkite as buildkite-agent does, at its clock: they poll
// each second. bug is one thing that they do wrong.
type simulatedAgents struct {
	s    *fakebuildkite.Server
	next http.RoundTripper
	bug  string
	all  []*simulatedAgent
}

type simulatedAgent struct {
	*simulatedAgents
	Agent
	session                             string // token
	connected, since, until, hooked, at time.Time
	job, result                         string
	lingers                             time.Time
	dead, exited, frozen                bool
	code                                int
}

func (r *simulatedAgents) start(_ context.Context, a Agent) (Process, error) {
	p := &simulatedAgent{simulatedAgents: r, Agent: a, session: agentToken}
	r.all = append(r.all, p)
	r.s.At(r.s.Now(), p.register)
	return p, nil
}

func (p *simulatedAgent) Exited() (int, time.Time, bool) { return p.code, p.at, p.exited }
func (p *simulatedAgent) Hooked() (time.Time, bool)      { return p.hooked, !p.hooked.IsZero() }
func (p *simulatedAgent) Kill()                          { p.dead = true }
func (p *simulatedAgent) Freeze()                        { p.frozen = p.bug != "is not frozen" }
func (p *simulatedAgent) Stop() {
	if !p.dead && !p.exited && !p.connected.IsZero() {
		p.exit(0)
	}
	p.dead = true
}

func (p *simulatedAgent) ask(method, path string, body, into any) {
	raw, _ := json.Marshal(body)
	request, err := http.NewRequest(method, "https://agent.example/v3/"+path, bytes.NewReader(raw))
	if err != nil {
		panic(err)
	}
	request.Header.Set("Authorization", "Token "+p.session)
	response, err := p.next.RoundTrip(request)
	if err != nil {
		return
	}
	text, _ := io.ReadAll(response.Body)
	if into != nil {
		_ = json.Unmarshal(text, into)
	}
}

func (p *simulatedAgent) exit(code int) {
	if code == 0 {
		p.ask(http.MethodPost, "disconnect", nil, nil)
	}
	p.exited, p.code, p.at = true, code, p.s.Now()
}

func (p *simulatedAgent) after(d time.Duration, do func()) {
	p.s.At(p.s.Now().Add(d), func() {
		if !p.dead && !p.exited {
			do()
		}
	})
}

func (p *simulatedAgent) register() {
	if p.bug == "registers after the hook" && p.Hook > 0 && p.hooked.IsZero() {
		p.after(p.Hook, func() { p.hooked = p.s.Now(); p.register() })
		return
	}
	var answer struct {
		Token string `json:"access_token"`
	}
	if p.bug == "priority" {
		p.Priority = 10 - p.Priority
	}
	host := "host"
	if p.bug == "name" {
		host = "%hostname"
	}
	p.ask(http.MethodPost, "register", map[string]any{"name": p.Title(), "hostname": host, "meta_data": p.Tags, "priority": fmt.Sprint(p.Priority), "version": "3"}, &answer)
	if answer.Token == "" {
		p.exited, p.code, p.at = true, 1, p.s.Now()
		return
	}
	p.session = answer.Token
	switch {
	case p.HookFails && p.bug != "ignores a hook that fails":
		p.exit(1)
	case p.Hook > 0 && p.hooked.IsZero():
		p.after(p.Hook, func() {
			p.hooked = p.s.Now()
			if p.bug == "connects late" {
				p.after(50*time.Second, p.connect)
				return
			}
			if p.connected.IsZero() {
				p.connect()
			}
		})
		if p.bug == "connects before the hook" {
			p.connect()
		}
	default:
		p.connect()
	}
}

func (p *simulatedAgent) connect() {
	p.ask(http.MethodPost, "connect", nil, nil)
	p.connected, p.since = p.s.Now(), p.s.Now()
	p.poll()
}

func (p *simulatedAgent) poll() {
	if p.frozen {
		return
	}
	now := p.s.Now()
	p.ask(http.MethodPost, "heartbeat", nil, nil)
	old := p.Uptime > 0 && !now.Before(p.connected.Add(p.Uptime)) && p.bug != "takes a job after its uptime"
	idle := p.IdleTimeout
	switch p.bug {
	case "exits early":
		idle /= 2
	case "never idle":
		idle = time.Hour
	}
	switch {
	case !p.lingers.IsZero():
		if !now.Before(p.lingers) {
			p.exit(0)
		}
	case p.job != "":
		p.work(now, old)
	case old || now.Sub(p.since) >= idle:
		p.exit(0)
	default:
		p.fetch(now)
	}
	p.after(time.Second, p.poll)
}

// work ends a job that is over or canceled.
func (p *simulatedAgent) work(now time.Time, old bool) {
	var job struct{ State string }
	p.ask(http.MethodGet, "jobs/"+p.job, nil, &job)
	if job.State == "canceling" {
		p.until, p.result = now, "-1"
	}
	if p.bug == "exits before its job ends" && old {
		p.exited, p.at = true, now
		return
	}
	if now.Before(p.until) {
		return
	}
	once := p.AfterJob && (p.bug != "takes two jobs" || p.Name != "pass")
	p.ask(http.MethodPut, "jobs/"+p.job+"/finish", map[string]any{"exit_status": p.result, "ignore_agent_in_dispatches": once}, nil)
	p.job, p.since = "", now
	switch {
	case once && p.bug == "lingers":
		p.lingers = now.Add(2 * time.Minute)
	case once && p.bug == "fails" && p.result != "0":
		p.exit(0)
		p.code = 1
	case once || old:
		p.exit(0)
	}
}

// fetch takes a job.
func (p *simulatedAgent) fetch(now time.Time) {
	var ping struct{ Job struct{ ID string } }
	p.ask(http.MethodGet, "ping", nil, &ping)
	if ping.Job.ID == "" {
		return
	}
	var accepted struct{ Step struct{ Command string } }
	p.ask(http.MethodPut, "jobs/"+ping.Job.ID+"/accept", nil, &accepted)
	p.ask(http.MethodPut, "jobs/"+ping.Job.ID+"/start", nil, nil)
	var seconds int
	_, _ = fmt.Sscanf(accepted.Step.Command, "sleep %d", &seconds)
	p.job, p.until, p.result = ping.Job.ID, now.Add(time.Duration(seconds)*time.Second), "0"
	if strings.HasSuffix(accepted.Step.Command, "exit 1") {
		p.result = "1"
	}
}

package explanation

import (
	"encoding/base64"
	"strings"
	"testing"
)

// TestRefersTo asserts what names refer to, as people copy them from pages, APIs, terminals, mails and
// chats.
func TestRefersTo(t *testing.T) {
	const (
		job    = "0193a4f7-8b1c-4d2e-9f3a-5c6d7e8f9a0b"
		step   = "0193a4f7-8b1c-4d2e-9f3a-000000000001"
		build  = "https://buildkite.com/acme/app/builds/1"
		api    = "https://api.buildkite.com/v2/organizations/acme/pipelines/app/builds/1"
		commit = "3f2c1ab9d8e7f60123456789abcdef0123456789"
		parent = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		cgit   = "https://git.example.com/fleet.git"
	)
	global := func(kind string) string { return base64.StdEncoding.EncodeToString([]byte(kind + "---" + job)) }
	for _, c := range []struct {
		kind  kind
		id    string
		names []string
	}{
		{jobName, job, []string{
			job, strings.ToUpper(job), " " + job + "\n", "`" + job + "`", `"` + job + `"`, job + ".", "#" + job, "job-" + job, "#job-" + job,
			global("Job"), strings.TrimRight(global("Job"), "="), global("JobTypeCommand"),
			build + "#" + job, build + "#" + job + "/12-40", build + "/#" + job, build + "#" + strings.ToUpper(job), build + "#" + job + ".", "(" + build + "#" + job + ")", "<" + build + "#" + job + ">", "<" + build + "#" + job + "|Build 1>", "[test](" + build + "#" + job + ")",
			build + "/steps/canvas?jid=" + job + "&tab=output", build + "/steps/canvas?sid=" + step + "&jid=" + job + "&tab=output#" + step, build + "/steps/table?sid=" + step + "&jid=" + job, build + "/list?jid=" + job + "&tab=output", build + "/list?jid=" + job, build + "/table?jid=" + job, build + "/canvas?jid=" + job,
			build + "/waterfall?jid=" + job + "&tab=artifacts", build + "/summary/annotations?jid=" + job + "&tab=output", build + "/jobs/" + job, build + "/canvas?jid%3D" + job,
			"https://buildkite.com/organizations/acme/pipelines/app/builds/1/jobs/" + job + "/raw_log", "https://buildkite.com/organizations/acme/pipelines/app/builds/1/jobs/" + job + "/artifacts/" + step, "https://buildkite.com/organizations/acme/jobs/" + job,
			api + "/jobs/" + job, api + "/jobs/" + job + "/log", api + "/jobs/" + job + "/log.txt", api + "/jobs/" + job + "/", "https://api.buildkite.com/v3/stacks/k8s/jobs/" + job, "https://agent.buildkite.com/v3/jobs/" + job,
			"buildkite.com/acme/app/builds/1#" + job, "HTTPS://BUILDKITE.COM/ACME/APP/BUILDS/1#" + strings.ToUpper(job), "see " + build + "#" + job + ", please",
			"https://eur01.safelinks.protection.outlook.com/?url=https%3A%2F%2Fbuildkite.com%2Facme%2Fapp%2Fbuilds%2F1%23" + job + "&data=05%7C01",
		}},
		{buildkitePage, "", []string{
			build, build + "/", build + "/steps/canvas?sid=" + step, build + "/steps/" + step, "https://buildkite.com/acme", "https://buildkite.com/acme/app", "https://buildkite.com/acme/app/builds?commit=" + commit, "https://buildkite.com/organizations/acme/clusters/" + step, api, api + "/annotations",
			"https://buildkite.com/organizations/acme/clusters/" + step + "/queues/" + step, "https://buildkite.com/builds/" + step, global("Build"), global("Pipeline"), "buildkite.com/acme/app/builds/1",
		}},
		{agentPage, "", []string{
			"https://buildkite.com/organizations/acme/agents/" + job, "https://buildkite.com/organizations/acme/agents/" + job + "/", "https://buildkite.com/organizations/acme/clusters/" + step + "/agents/" + job, "https://buildkite.com/organizations/acme/clusters/" + step + "/queues/" + step + "/agents",
			"https://api.buildkite.com/v2/organizations/acme/agents/" + job, "https://api.buildkite.com/v2/organizations/acme/agents?per_page=100", global("Agent"), "buildkite.com/organizations/acme/agents/" + job,
		}},
		{dispatchName, "linux-eu-x3vyrzrm", []string{
			"linux-eu-x3vyrzrm", "linux-eu-x3vyrzrm-0", "linux-eu-x3vyrzrm-17", "linux-eu-x3vyrzrm-99999", "linux-eu-x3vyrzrm-3-k7q2p", "job/linux-eu-x3vyrzrm", "job.batch/linux-eu-x3vyrzrm", "pod/linux-eu-x3vyrzrm-3-k7q2p", "dispatch=linux-eu-x3vyrzrm",
			"overlays/linux/eu/dispatches/linux-eu-x3vyrzrm.yaml", `"linux-eu-x3vyrzrm-0".`, "(linux-eu-x3vyrzrm)",
			"https://github.com/acme/fleet/blob/main/overlays/linux/eu/dispatches/linux-eu-x3vyrzrm.yaml", "https://gitlab.com/acme/fleet/-/blob/main/overlays/linux/eu/dispatches/linux-eu-x3vyrzrm.yaml#L3", "https://buildkite.com/organizations/acme/agents?search=linux-eu-x3vyrzrm-0", "https://api.buildkite.com/v2/organizations/acme/agents?name=linux-eu-x3vyrzrm-0",
		}},
		{dispatchName, "linux-warm-8g4m0d3c", []string{"linux-warm-8g4m0d3c", "linux-warm-8g4m0d3c-2"}},
		{dispatchName, "a-1-12345678", []string{"a-1-12345678", "a-1-12345678-0", "a-1-12345678-0-12345"}},
		{commitName, "3f2c1ab", []string{"3f2c1ab", "3F2C1AB", "3f2c1ab.", "https://github.com/acme/fleet/commit/3f2c1ab", "https://gitlab.com/acme/ci/fleet/-/commit/3f2c1ab?view=parallel"}},
		{commitName, commit, []string{
			commit, "https://github.com/acme/fleet/commit/" + commit, "github.com/acme/fleet/commit/" + commit, "https://github.com/acme/fleet/commit/" + commit + ".patch", "https://github.com/acme/fleet/commit/" + commit + "#diff-" + strings.Repeat("b", 64),
			"https://github.com/acme/fleet/pull/7/commits/" + commit, "https://api.github.com/repos/acme/fleet/commits/" + commit, "https://github.com/acme/fleet/commits/" + commit + "/", "https://github.com/acme/fleet/tree/" + commit, "https://github.com/acme/fleet/blob/" + commit + "/overlays/default/scaling.yaml",
			"https://gitlab.example.com/acme/fleet/-/commit/" + commit, "https://gitlab.com/acme/fleet/-/tree/" + commit, "https://gitlab.com/api/v4/projects/7/repository/commits/" + commit,
			"https://bitbucket.org/acme/fleet/commits/" + commit, "https://bitbucket.example.com/projects/CI/repos/fleet/commits/" + commit, "https://bitbucket.example.com/projects/CI/repos/fleet/browse?at=" + commit,
			"https://dev.azure.com/acme/ci/_git/fleet/commit/" + commit + "?refName=refs%2Fheads%2Fmain", "https://dev.azure.com/acme/" + step + "/_git/fleet?version=GC" + commit, "https://acme.visualstudio.com/ci/_git/fleet/commit/" + commit,
			"https://gitea.example.com/acme/fleet/commit/" + commit, "https://codeberg.org/acme/fleet/src/commit/" + commit + "/base/job.yaml", "https://git.sr.ht/~acme/fleet/commit/" + commit, "https://fleet.googlesource.com/fleet/+/" + commit, "https://fleet.googlesource.com/fleet/+/" + commit + "^!/",
			cgit + "/commit/?id=" + commit, cgit + "/commit/?h=main&id=" + commit, "<" + cgit + "/commit/?id=" + commit + ">", cgit + "/commit/?id=" + commit + ").", "https://git.example.com/?p=fleet.git;a=commit;h=" + commit + ";hp=" + parent, "https://git.example.com/gitweb?p=fleet.git&a=commitdiff&h=" + commit + "&hp=" + parent, "https://git.example.com/?p=fleet.git;a=blob;f=base/job.yaml;h=" + parent + ";hb=" + commit, "https://console.aws.amazon.com/codesuite/codecommit/repositories/fleet/commit/" + commit + "?region=eu-west-1",
			"https://github.com/acme/fleet/commit/" + strings.ToUpper(commit), "HTTPS://github.com/acme/fleet/commit/" + commit,
		}},
		{overlayName, "", []string{
			"", "default", "linux/large", "overlays/linux/large/", "linux-eu-x3vyrzr", "linux-eu-x3vyrzri", "my.team/linux", "https://github.com/acme/fleet", "https://github.com/acme/fleet/compare/" + commit + "..." + parent, "https://example.com/" + job, "../../etc", "https://", "http://[",
			"https://github.com/acme/fleet/tree/main/overlays/default", "QWdlbnQtLS0=", "deadbee-", "https://github.com/acme/fleet/pull/12",
		}},
	} {
		for _, name := range c.names {
			if got := refersTo(name); got != (reference{c.kind, c.id}) {
				t.Errorf("%q refers to %d %q, want %d %q", name, got.kind, got.id, c.kind, c.id)
			}
		}
	}
}

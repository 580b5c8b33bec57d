package main

// operationMutants are those of what operators do while muster runs.
var operationMutants = []mutant{
	{
		without: "the git password of the moment",
		edits: []edit{
			{"gitops/git/remote/credentials.go", "	return func(context.Context) (string, string, error) {\n		content, err := os.ReadFile(file)\n", "	content, err := os.ReadFile(file)\n	return func(context.Context) (string, string, error) {\n"},
		},
		rows: map[string][]string{
			"operations": {"TestRunRotatesCredentials"},
			"hosts":      {"TestHosts/Gitea_over_http/program/rotation"},
		},
	},
	{
		without: "the ssh key of the moment",
		edits: []edit{
			{"gitops/git/remote/ssh.go", "func readSSHKey(file string) (ssh.Signer, error) {\n	key, err := os.ReadFile(file)\n", `var firstKeys = map[string][]byte{}

func readSSHKey(file string) (ssh.Signer, error) {
	key, err := os.ReadFile(file)
	if first, ok := firstKeys[file]; ok {
		key = first
	}
	firstKeys[file] = key
`},
		},
		rows: map[string][]string{"hosts": {"TestHosts/gitolite/program/rotation", "TestHosts/Gitea_over_its_own_ssh/program/rotation"}},
	},
	{
		without: "the Buildkite tokens of the moment",
		edits: []edit{
			{"cmd/invocation/buildkite.go", "	_, err := read()\n	return read, output.Usage(err)\n", "	token, err := read()\n	return func() (string, error) { return token, nil }, output.Usage(err)\n"},
		},
		rows: map[string][]string{
			"operations": {"TestRunRotatesCredentials"},
			"hosts":      {"TestHosts/gitolite/program/rotation"},
		},
	},
	{
		without: "the identity in state.yaml",
		edits:   []edit{{"generator/fleet/identity.go", "		id := o.State.Identity\n", "		id := plan.Identity{}\n"}},
		rows: map[string][]string{
			"operations": {"TestRunAfterMoveToSSH", "TestUnracedScripts/rename"},
			"hosts":      {"TestHosts/Gitea_over_http/program/move", "TestHosts/Gitea_over_its_own_ssh/program/move"},
		},
	},
	{
		without: "agents in flight",
		edits:   []edit{{"generator/plan/inflight.go", "			agents += n\n", "			agents += 0 * n\n"}},
		rows: map[string][]string{
			"operations": {"TestRunAfterMoveToSSH", "TestUnracedScripts/rename", "TestUnracedScripts/remove", "TestUnracedScripts/edits", "TestUnracedScripts/operations", "TestUnracedScripts/manual"},
		},
	},
	{
		without: "agents in flight of withdrawn orders",
		edits:   []edit{{"generator/plan/inflight.go", "		if d.Expired(now) {\n", "		if d.Expired(now) || d.Withdrawn {\n"}},
		rows:    map[string][]string{"operations": {"TestUnracedScripts/edits", "TestUnracedScripts/operations", "TestUnracedScripts/manual"}},
	},
}

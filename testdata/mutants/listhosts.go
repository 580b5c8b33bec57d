package main

// hostMutants are those of make hosts.
var hostMutants = []mutant{
	{
		without: "compare-and-swap of the head",
		edits: []edit{{"gitops/git/push.go", "	if err := b.stillAt(adv, to); err != nil {\n", `	if at, err := remote.FindBranch(adv, to.name); err == nil {
		to.old = at
	} else if err := b.stillAt(adv, to); err != nil {
`}},
		rows: map[string][]string{"hosts": {
			"TestHosts/git_http-backend/contract/conflict", "TestHosts/git_http-backend/story/rival", "TestHosts/Dulwich/contract/conflict",
		}},
	},
	{
		without: "the look at the branch after a lost answer",
		edits:   []edit{{"gitops/git/push.go", "	case result.err == nil, !result.sent:\n		return result.err\n	}\n", "	case result.err == nil, !result.sent:\n		return result.err\n	case !result.answered && !result.denied:\n		return nil\n	}\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/Dulwich/story/locked", "TestHosts/JGit/story/restart"}},
	},
	{
		without: "the look at the branch after a push",
		edits:   []edit{{"gitops/git/push.go", "remote.UnreliableReport.MatchMissing(adv.Capabilities)", "false"}},
		rows:    map[string][]string{"hosts": {"TestHosts/Dulwich/contract/writers", "TestHosts/Dulwich/story/rival"}},
	},
	{
		without: "the host's words",
		edits:   []edit{{"gitops/git/push.go", "		words = append(words, remote.LastLines(a.serverMessage))\n", ""}},
		rows: map[string][]string{"hosts": {
			"TestHosts/git_http-backend/contract/refusal", "TestHosts/git_http-backend/story/protection",
			"TestHosts/Gitea_over_http/story/protection", "TestHosts/gitolite/story/protection",
		}},
	},
	{
		without: "shallow clone where the host has no partial clone",
		edits: []edit{{"gitops/git/store.go", "	if s.mode == partial && (!offers(capability.Filter) || !offers(capability.AllowReachableSHA1InWant)) {\n", "	if false {\n"},
			{"gitops/git/store.go", "		if !errors.Is(refused, remote.ErrFilter) && !errors.Is(refused, remote.ErrNotOurs) {\n", "		{\n"}},
		rows: map[string][]string{"hosts": {
			"TestHosts/Dulwich/contract/chain", "TestHosts/JGit/contract/chain", "TestHosts/Dulwich/story/check",
		}},
	},
	{
		without: "the request of capabilities that a host requires",
		edits:   []edit{{"gitops/git/remote/http.go", "			if NeedsCapability.MatchName(name) {\n", "			if false {\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/Dulwich/contract/chain", "TestHosts/Dulwich/story/check"}},
	},
	{
		without: "the repetition with thin-pack",
		edits:   []edit{{"gitops/git/remote/fetch.go", "	if err != nil && !c.AlwaysThin && (", "	if false && ("}},
		rows:    map[string][]string{"hosts": {"TestHosts/Dulwich/story/whole"}},
	},
	{
		without: "the repetition of a push that finds the branch locked",
		edits:   []edit{{"gitops/git/push.go", "	lockTries = 6\n", "	lockTries = 1\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/story/locked"}},
	},
	{
		without: "signatures",
		edits:   []edit{{"gitops/git/commit.go", "	if err != nil || a.sign == nil {\n", "	if err != nil || a.sign == nil || true {\n"}},
		rows: map[string][]string{"hosts": {
			"TestHosts/git_http-backend/story/signatures", "TestHosts/Gitea_over_http/story/signatures",
		}},
	},
	{
		without: "redirects",
		edits:   []edit{{"gitops/git/remote/http.go", `		return response.Header.Get("Location") != ""`, "		return false"}},
		rows:    map[string][]string{"hosts": {"TestHosts/Gitea_over_http/story/rename"}},
	},
	{
		without: "the removal of empty directories",
		edits:   []edit{{"gitops/git/treebuilder.go", "	if len(raw) == 0 {\n		return plumbing.ZeroHash, nil\n	}\n	return b.storeTree", "	return b.storeTree"}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/contract/chain"}},
	},
	{
		without: "the omission of commits that change nothing",
		edits:   []edit{{"gitops/git/treebuilder.go", "	if to == root {\n", "	if false {\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/contract/nothing"}},
	},
	{
		without: "the mode of a file",
		edits:   []edit{{"gitops/git/treebuilder.go", "			mode = old.at(i).mode\n", "			mode = filemode.Regular\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/contract/modes"}},
	},
	{
		without: "the time zone of commits",
		edits:   []edit{{"gitops/git/commit.go", "	return io.ReadAll(reader)\n", "	raw, err := io.ReadAll(reader)\n	return bytes.ReplaceAll(raw, []byte(\" +0000\\n\"), []byte(\" 0\\n\")), err\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/contract/many", "TestHosts/git_http-backend/story/whole"}},
	},
	{
		without: "binary files",
		edits: []edit{{"gitops/git/treebuilder.go", "		at.write, at.remove, at.content = c.Content != nil, c.Content == nil, c.Content\n",
			"		at.write, at.remove, at.content = c.Content != nil, c.Content == nil, []byte(strings.ToValidUTF8(string(c.Content), \"\"))\n"}},
		rows: map[string][]string{"hosts": {"TestHosts/git_http-backend/contract/many"}},
	},
	{
		without: "the check of paths",
		edits:   []edit{{"gitops/git/treebuilder.go", "		if err := branch.CheckPath(c.Path); err != nil {\n", "		if err := branch.CheckPath(c.Path); false {\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/contract/paths"}},
	},
	{
		without: "the distinction of branches from other refs",
		edits:   []edit{{"gitops/git/branch.go", `	if name == "HEAD" || strings.HasPrefix(name, "refs/") || plumbing`, `	if plumbing`}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/contract/branches", "TestHosts/Dulwich/contract/branches"}},
	},
	{
		without: "the comparison of the head with the last one",
		edits:   []edit{{"gitops/git/branch.go", "	if head == b.store.head {\n		return head, nil\n", "	if false {\n		return head, nil\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/story/idle", "TestHosts/Dulwich/story/idle"}},
	},
	{
		without: "the trees of the last push",
		edits:   []edit{{"gitops/git/store.go", "	s.adoptTree(b, root)\n", ""}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/story/idle"}},
	},
	{
		without: "the trust in hosts that report the result of a push reliably",
		edits:   []edit{{"gitops/git/push.go", "remote.UnreliableReport.MatchMissing(adv.Capabilities)", "true"}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/story/twenty_ticks"}},
	},
	{
		without: "orders",
		edits:   []edit{{"generator/plan/division.go", "	m.Dispatch = m.Demand + m.WarmPool\n", "	m.Dispatch = 0\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/story/dispatch", "TestHosts/Dulwich/story/dispatch"}},
	},
	{
		without: "retirements",
		edits:   []edit{{"generator/plan/decide.go", "	d.RetireNow = s.retireNow(o)\n", "	d.RetireNow = false\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/story/retire"}},
	},
	{
		without: "the push that moves nothing",
		edits:   []edit{{"gitops/git/writable.go", "	return b.failPush(b.tryMove(ctx))\n", "	return nil\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/JGit/story/writable", "TestHosts/gitolite/story/writable"}},
	},
	{
		without: "the knowledge that git runs hooks first",
		edits:   []edit{{"gitops/git/writable.go", "	case comparesOnly(err) && hooksFirst(adv):\n", "	case false:\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/story/writable"}},
	},
	{
		without: "the rules for branches of another program than git",
		edits:   []edit{{"gitops/git/writable.go", "	case comparesOnly(err) && hooksFirst(adv):\n", "	case comparesOnly(err):\n		return nil\n	case comparesOnly(err) && hooksFirst(adv):\n"}},
		rows:    map[string][]string{"hosts": {"TestHosts/JGit/story/writable"}},
	},
	{
		without: "an annotation that check asks for",
		edits:   []edit{{"base/job.yaml", "    kustomize.toolkit.fluxcd.io/substitute: disabled\n", ""}},
		rows:    map[string][]string{"hosts": {"TestHosts/git_http-backend/story/check"}},
	},
}

package page

import (
	"net/url"
	"strings"

	"muster/gitops/branch"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// docs is the address of the documentation of this version, without a slash at the end. The linker
// sets it. Without it, the page links to its own list of reasons.
var docs string

// links are the addresses of pages of other services.
type links struct {
	// commit is the page of a commit, with {commit} in place of its ID; empty: unknown.
	commit string
	// job is the beginning of the addresses of jobs, and clusters that of clusters; empty: unknown.
	job, clusters string
}

// newLinks returns the addresses for a repository, as [status.Muster] has it, and an organisation of
// Buildkite. template replaces the address of commits; it is optional.
func newLinks(repository, organisation, template string) links {
	l := links{commit: template}
	if l.commit == "" {
		l.commit = commitTemplate(repository)
	}
	if organisation != "" {
		l.job = "https://buildkite.com/" + url.PathEscape(organisation) + "/"
		l.clusters = "https://buildkite.com/organizations/" + url.PathEscape(organisation) + "/clusters/"
	}
	return l
}

// commitTemplate returns the address of a commit's page on the host of a repository; empty if the host
// is not known.
func commitTemplate(repository string) string {
	a, err := branch.ParseAddress(repository)
	if err != nil || a.Host == "" {
		return ""
	}
	host, path := strings.ToLower(a.Host), strings.Split(a.Repository(), "/")
	site := url.URL{Scheme: "https", Host: host}
	if a.Scheme != "ssh" && a.Scheme != "git" { // over SSH, the port is not that of the site
		site.Scheme, site.Host = a.Scheme, strings.ToLower(a.HostPort())
	}
	for _, prefix := range []string{"ssh.github", "altssh.gitlab", "altssh.bitbucket"} { // hosts of SSH on port 443
		if strings.HasPrefix(site.Host, prefix+".") {
			_, site.Host, _ = strings.Cut(site.Host, ".")
		}
	}
	at := func(path []string, suffix string) string {
		site.Path = "/" + strings.Join(path, "/")
		return site.String() + suffix + "{commit}"
	}
	is := func(names ...string) bool {
		for _, label := range strings.Split(host, ".") {
			for _, name := range names {
				if strings.HasPrefix(label, name) {
					return true
				}
			}
		}
		return false
	}
	switch {
	case host == "ssh.dev.azure.com" && len(path) == 4: // v3/ORGANISATION/PROJECT/REPOSITORY
		site.Host = "dev.azure.com"
		return at([]string{path[1], path[2], "_git", path[3]}, "/commit/")
	case host == "dev.azure.com", strings.HasSuffix(host, ".visualstudio.com"), is("github", "gitea", "forgejo", "codeberg"):
		return at(path, "/commit/")
	case is("gitlab"):
		return at(path, "/-/commit/")
	case site.Host == "bitbucket.org":
		return at(path, "/commits/")
	case is("bitbucket") && len(path) >= 2: // Bitbucket Data Center, over HTTP below /scm
		project, name := path[len(path)-2], path[len(path)-1]
		return at([]string{"projects", project, "repos", name}, "/commits/")
	}
	return ""
}

// commitLink returns the short ID of a commit, as a link if its page is known.
func (l links) commitLink(id string) g.Node {
	if id == "" {
		return nil
	}
	short := h.Code(g.Text(id[:min(len(id), 10)]))
	if l.commit == "" {
		return short
	}
	return h.A(h.Href(strings.ReplaceAll(l.commit, "{commit}", url.PathEscape(id))), h.Title("the commit on the git host"), short)
}

// queue returns a text, as a link if the queue of the overlay is known.
func (l links) queue(o overlay, text string) g.Node {
	if l.clusters == "" || o.QueueID == "" || o.ClusterID == "" {
		return g.Text(text)
	}
	return h.A(h.Href(l.clusters+url.PathEscape(o.ClusterID)+"/queues/"+url.PathEscape(o.QueueID)), h.Title("the queue in Buildkite"), g.Text(text))
}

// text returns a text in which the addresses of the organisation's jobs are links. Other addresses are
// text, because jobs may contain any.
func (l links) text(text string) g.Node {
	var all g.Group
	for l.job != "" {
		i := strings.Index(text, l.job)
		if i < 0 {
			break
		}
		address := text[i:]
		if end := strings.IndexAny(address, "\"'<> \n\t;,)"); end >= 0 {
			address = address[:end]
		}
		all = append(all, g.Text(text[:i]), h.A(h.Href(address), g.Text(address)))
		text = text[i+len(address):]
	}
	return append(all, g.Text(text))
}

// reasonLink returns the address of the documentation of a condition.
func reasonLink(reason string) string {
	if docs == "" {
		return "reasons#" + url.PathEscape(reason)
	}
	return docs + "/reference/log-messages.md#conditions"
}

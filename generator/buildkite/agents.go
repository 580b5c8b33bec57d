package buildkite

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"muster/generator/plan"
)

// Large organisations have thousands of agents, of which muster serves few. Agents are
// therefore listed by cluster queue (docs apis/rest_api/agents.md "List agents",
// cluster_queue_id) if that takes fewer requests than listing all agents.
//
// An agent of an overlay that is in another queue must be noticed too: it counts against
// max, and its dispatch must not count as lost. It registered with other tags than the
// policy says, or the policy's queue was edited. Therefore:
//
//   - a poll after the served queues have changed lists all agents, and so does the first poll if a
//     dispatch is for a queue that is not served;
//   - all agents are listed once when a dispatch is three minutes old and none of its agents
//     was listed;
//   - every other poll reads one page of the list of all agents, the next page each time;
//   - a queue in which such a page has an agent of an overlay is listed in every poll, until
//     it has no such agent;
//   - while an agent of an overlay is in no cluster, which the filter cannot select, every poll
//     lists all agents.
//
// An agent that registers in a wrong queue after its page was read is not noticed until
// that page is read again. It counts as in flight until then, at most until its lease
// ends.

// agentLists is the state of the agent lists from one poll to the next.
type agentLists struct {
	ignored bool     // the server ignores the filter
	served  []string // the served queues at the last list of all agents, by identifier; nil: some are in no cluster
	strays  []string // other queues with agents of overlays
	loose   bool     // an agent of an overlay is in no queue of a cluster
	whole   int      // requests that the list of all agents takes; zero: no page of it was read
	parts   int      // requests that the last lists by queue took
	read    int      // how much of the list of all agents was read, page by page

	wholeAt time.Time       // when the list of all agents was last read
	seen    map[string]bool // dispatches in git that have had a listed agent; nil before the first are listed
}

// unseenAfter is the age of a dispatch without listed agents at which all agents are
// listed. Most agents start sooner, and an agent that waits for a job in a wrong queue
// stays connected for 5 minutes by default.
const unseenAfter = 3 * time.Minute

// errIgnored is returned if a response has agents of other queues than the requested one.
var errIgnored = errors.New("agents of other queues are listed")

// serve sets the overlays whose agents and jobs are read. Without overlays a poll lists all
// agents. With a [Stacks], jobs of other queues are not read.
func (c *Client) serve(overlays []plan.Overlay) {
	var queues []string
	if c.cfg.Stacks != nil {
		c.cfg.Stacks.name(overlays)
	}
	c.ownTags, c.orders = map[string]bool{}, nil
	for _, o := range overlays {
		queues = append(queues, o.Policy.Queue)
		c.ownTags[plan.TagOverlay+"="+o.Slug()] = true
		c.ownTags[plan.TagIdentity+"="+o.Identity.ID] = true
		for _, d := range o.Dispatches {
			c.ownTags[plan.TagDispatch+"="+d.ID] = true
			if !d.Withdrawn {
				c.orders = append(c.orders, d)
			}
		}
	}
	slices.Sort(queues)
	c.serves = slices.Compact(queues)
}

// own reports whether an agent has a tag of an overlay or of a dispatch, or the name of one.
func (c *Client) own(r *agentRecord) bool {
	return c.orderTags(r) != nil || slices.ContainsFunc(r.MetaData, func(tag string) bool { return c.ownTags[tag] })
}

// orderTags returns the overlay, dispatch and index of an agent that has lost these tags, as when a template
// sets others: its name has them too. It returns nil for other agents.
func (c *Client) orderTags(r *agentRecord) []string {
	if _, tagged := plan.TagValue(r.MetaData, plan.TagDispatch); tagged {
		return nil
	}
	tags := plan.NameTags(string(r.Name))
	if tags == nil || !c.ownTags[tags[0]] {
		return nil
	}
	for _, key := range []string{plan.TagOverlay, plan.TagIdentity} {
		if value, known := plan.TagValue(r.MetaData, key); known && !c.ownTags[key+"="+value] {
			return nil
		}
	}
	return tags
}

// servedQueues returns the identifiers of the served queues, sorted; nil if one of them
// may be in no cluster.
func (c *Client) servedQueues() (ids []string) {
	found := map[string]bool{}
	for id, key := range c.clusters.queues {
		if slices.Contains(c.serves, key) && slug.MatchString(id) { // it goes into a query
			ids, found[key] = append(ids, id), true
		}
	}
	if c.clusters.unread != "" || len(found) < len(c.serves) {
		return nil
	}
	slices.Sort(ids)
	return ids
}

// queuesToList returns the identifiers of the queues whose agents a poll lists; nil if it
// lists all agents.
func (c *Client) queuesToList(at time.Time) []string {
	k := &c.lists
	served := c.servedQueues()
	unseen := slices.ContainsFunc(c.orders, func(d plan.Dispatch) bool {
		if queue, tagged := plan.TagValue(d.Tags, plan.TagQueue); k.seen == nil { // in the first poll
			return tagged && !slices.Contains(c.serves, queue)
		}
		due := d.At.Add(unseenAfter)
		return !k.seen[d.ID] && !at.Before(due) && k.wholeAt.Before(due) && !d.Expired(at)
	})
	if unseen || len(served) == 0 || !slices.Equal(served, k.served) || k.loose || k.ignored {
		return nil
	}
	all := slices.Concat(served, k.strays)
	if max(len(all), k.parts)+1 >= k.whole {
		return nil
	}
	return all
}

// readFirstAgents reads the first page of the list of all agents if it is not known how many pages
// there are, and the others if they are few. Otherwise the clusters are read next: whether the poll
// lists agents by queue depends on them.
func (s *session) readFirstAgents(ctx context.Context) error {
	l := s.poll
	if s.client.lists.whole > 0 {
		return nil
	}
	l.listing = true
	return s.listAgents(ctx, "")
}

// readFirstClusters reads the clusters if readFirstAgents left pages to be read and the clusters are
// not known.
func (s *session) readFirstClusters(ctx context.Context) error {
	if s.poll.first == nil || !s.client.clusters.read.IsZero() {
		return nil
	}
	return s.readClusters(ctx)
}

// readAgents reads the agents that are connected or stopping: the list contains no others (docs
// apis/rest_api/agents.md "List agents").
func (s *session) readAgents(ctx context.Context) error {
	l, k := s.poll, &s.client.lists
	if !l.listing {
		l.listing, l.queues = true, s.client.queuesToList(l.begun)
		l.byQueue = l.queues != nil
	}
	if l.first != nil {
		k.whole, k.read, k.served = l.first.last, l.first.read, s.client.servedQueues()
		if l.queues = s.client.queuesToList(l.begun); l.queues != nil {
			l.byQueue = true
			maps.DeleteFunc(l.agents, func(_ string, r agentRecord) bool { return !s.client.own(&r) })
		} else {
			l.list = l.first
		}
		l.first = nil
	} else if l.pages > 0 && l.list == nil && !l.byQueue {
		return nil // readFirstAgents has read all
	}
	for l.byQueue && len(l.queues) > 0 {
		err := s.listAgents(ctx, l.queues[0])
		ignored := errors.Is(err, errIgnored) || hasStatus(err, http.StatusBadRequest, http.StatusUnprocessableEntity)
		switch {
		case ignored, hasStatus(err, http.StatusNotFound): // or the queue was deleted
			k.ignored = k.ignored || ignored
			s.client.cfg.Log.Info("agents cannot be listed by queue: listing all agents", "reason", err)
			l.byQueue, l.list, l.agents = false, nil, map[string]agentRecord{}
		case err != nil:
			return err
		default:
			l.queues = l.queues[1:]
		}
	}
	if l.byQueue && k.seen == nil {
		s.client.see(l)
		l.byQueue = s.client.queuesToList(l.begun) != nil
	}
	if l.byQueue {
		return s.readAgentsPage(ctx)
	}
	return s.listAgents(ctx, "")
}

// listAgents reads the agents of a queue, or all agents if queue is empty. If an agent is
// listed twice, the later record wins.
func (s *session) listAgents(ctx context.Context, queue string) error {
	l := s.poll
	if l.list == nil {
		l.list = &listing{path: s.path("agents"), overlap: shared, brief: s.client.lists.whole == 0}
		if queue != "" {
			l.list.query = url.Values{"cluster_queue_id": {queue}}
		}
	}
	err := s.list(ctx, l.list, func(d *decoder) (string, error) {
		r, valid, err := decode[agentRecord](s, "agent", d)
		switch {
		case !valid:
			return "", err
		case queue != "" && !s.client.mayBeIn(&r, queue):
			return "", errIgnored
		}
		l.agents[string(r.ID)] = r
		return string(r.ID), nil
	})
	switch {
	case err != nil:
		return err
	case l.list.brief && l.list.last > l.list.page:
		l.list.brief, l.first = false, l.list
	default:
		l.pages += l.list.pages
	}
	l.list = nil
	return nil
}

// mayBeIn reports whether an agent may be in a queue: its record names that queue, or
// none.
func (c *Client) mayBeIn(r *agentRecord, queue string) bool {
	if _, id := place(string(r.WebURL), string(r.Cluster)); id != "" {
		return id == queue
	}
	return !hasQueue(r.MetaData) || slices.Contains(r.MetaData, plan.TagQueue+"="+c.clusters.queues[queue])
}

// readAgentsPage reads the next page of the list of all agents, and keeps the agents of
// overlays. The list shifts between two polls: an agent that moves across a page boundary
// is found in the next round.
func (s *session) readAgentsPage(ctx context.Context) error {
	l, k := s.poll, &s.client.lists
	var page, size int
	response, err := s.getPage(ctx, func(most int) string {
		page, size = k.read/most+1, most
		return pagePath(s.path("agents"), page, size, nil)
	}, func(d *decoder) error {
		return wholeList(d, func() error {
			r, valid, err := decode[agentRecord](s, "agent", d)
			if valid && s.client.own(&r) {
				l.agents[string(r.ID)] = r
			}
			return err
		})
	})
	if err != nil {
		return err
	}
	more, err := follow(response, page)
	if k.read = page * size; err == nil && !more || page >= maxPages {
		k.whole, k.read = page, 0
	}
	return err
}

// see records each dispatch that has an agent which is listed as connected or has a job in a
// build.
func (c *Client) see(l *poll) {
	seen := map[string]bool{}
	note := func(tags []string, name string) {
		for _, tag := range tags {
			if id, ok := strings.CutPrefix(tag, plan.TagDispatch+"="); ok {
				seen[id] = true
			}
		}
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			seen[name[:i]] = true
		}
	}
	for _, r := range l.agents {
		note(r.MetaData, string(r.Name))
	}
	for _, b := range l.builds {
		for _, a := range b.agents {
			note(a.tags, a.name)
		}
	}
	before := c.lists.seen
	c.lists.seen = map[string]bool{}
	for _, d := range c.orders {
		c.lists.seen[d.ID] = before[d.ID] || seen[d.ID]
	}
}

// listed records, after a poll, the queues of the overlays' agents and the number of
// requests.
func (c *Client) listed(l *poll) {
	k := &c.lists
	if l.byQueue {
		k.parts = l.pages
	} else {
		k.served, k.whole, k.parts, k.read, k.wholeAt = c.servedQueues(), l.pages, 0, 0, l.begun
	}
	c.see(l)
	strays := map[string]bool{}
	k.loose = false
	for _, r := range l.agents {
		if !c.own(&r) {
			continue
		}
		switch _, queue := place(string(r.WebURL), string(r.Cluster)); {
		case !slug.MatchString(queue):
			k.loose = true
		case !slices.Contains(k.served, queue):
			strays[queue] = true
		}
	}
	k.strays = slices.Sorted(maps.Keys(strays))
}

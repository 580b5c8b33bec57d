package buildkite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"strconv"
	"strings"

	buildkite "github.com/buildkite/go-buildkite/v3/buildkite"
)

// listing is a list that is read page by page, in one call of [Client.Snapshot]
// or in several. It records which pages have been read.
//
// Pages are numbered, so records move between pages if the list changes between two
// requests. If a record is added, another one is listed twice, which is harmless. If one is
// removed, another one moves from the next page to one that has been read, and is missed.
// Therefore a page can overlap with the records that were read: if it contains none of them,
// the client goes back. This requires a fixed order of the list, which Buildkite does not
// document.
type listing struct {
	path  string
	query url.Values
	// overlap is how many records each page shares with those that were read before.
	overlap int

	read  int             // number of records that have been read, from the first on
	known map[string]bool // their identifiers
	pages int             // successful requests
	page  int             // number of the last requested page, for errors
	far   int             // maximum of read
	back  int             // how often the client went back since read was far
	check bool            // the next page must overlap
	brief bool            // the list ends after its first page if there are more than briefPages
	last  int             // number of the last page, according to the first
}

const (
	// maxPages bounds a list: no organisation has a hundred thousand agents or
	// unfinished builds, and a server that always names a next page is broken.
	maxPages = 1000
	// briefPages is the maximum length of a list that is read whole in any case.
	briefPages = 2
	// maxBack limits how often the client goes back from one page.
	maxBack = 10
)

var (
	errNoNext  = errors.New("the Link header has no valid next page")
	errTooMany = fmt.Errorf("the list continues after %d pages", maxPages)
	errShifts  = fmt.Errorf("the list changes faster than it can be read: %d times a page did not continue the previous one", maxBack)
)

// next returns the number and the size of the next page, and whether it must overlap.
func (l *listing) next(most int) (page, size int, shares bool) {
	overlap := l.overlap
	if l.check {
		overlap = max(overlap, 1)
	}
	for overlap = min(overlap, most/10+1, l.read); ; overlap /= 2 {
		page, size = furthest(l.read, overlap, most)
		if (page-1)*size+size > l.read {
			return page, size, overlap > 0
		}
	}
}

// furthest returns the page with the last end of those that begin at least overlap records
// before from. A page begins with record (page-1)×size.
func furthest(from, overlap, most int) (page, size int) {
	reach := -1
	for s := most; s > most/2; s-- {
		p := (from-overlap)/s + 1
		if p*s > reach {
			page, size, reach = p, s, p*s
		}
	}
	return page, size
}

// list reads the remaining pages of a list and calls each for every record. Each reads the
// record and returns its identifier; empty if the record is invalid.
func (s *session) list(ctx context.Context, l *listing, each func(*decoder) (id string, err error)) error {
	for {
		more, err := s.readPage(ctx, l, each)
		if err != nil {
			return fmt.Errorf("page %d: %w", l.page, err)
		}
		if !more {
			return nil
		}
	}
}

// readPage reads the next page and reports whether another follows. After an error the
// next call requests the same page.
func (s *session) readPage(
	ctx context.Context, l *listing, each func(*decoder) (string, error),
) (more bool, err error) {
	var (
		page, size      int
		shares, follows bool
		ids             []string
		kept            = s.kept()
	)
	response, err := s.getPage(ctx, func(most int) string {
		page, size, shares = l.next(most)
		ids, follows, l.page = nil, !shares || page == 1, page
		s.keepOnly(kept)
		return pagePath(l.path, page, size, l.query)
	}, func(d *decoder) error {
		return wholeList(d, func() error {
			id, err := each(d)
			if id != "" {
				ids = append(ids, id)
				follows = follows || l.known[id]
			}
			return err
		})
	})
	if err != nil {
		s.keepOnly(kept)
		return false, err
	}
	more, err = follow(response, page)
	switch l.pages++; {
	case err != nil:
		return false, err
	case more && (page >= maxPages || l.pages >= 2*maxPages):
		return false, errTooMany
	case !follows:
		return true, l.goBack(page, size)
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	for _, id := range ids {
		l.known[id] = true
	}
	if l.read, l.check = page*size, false; l.read > l.far {
		l.far, l.back = l.read, 0
	}
	if page == 1 {
		l.last = response.LastPage
	}
	return more && !(l.brief && l.last > briefPages), nil
}

// pagePath returns the path of a page of a list.
func pagePath(path string, page, size int, more url.Values) string {
	query := url.Values{"page": {strconv.Itoa(page)}, "per_page": {strconv.Itoa(size)}}
	maps.Copy(query, more)
	return path + "?" + query.Encode()
}

// goBack continues the list at an earlier page: one page back, then two, and so on.
func (l *listing) goBack(page, size int) error {
	if l.back++; l.back > maxBack {
		return errShifts
	}
	l.read = max(0, (page-1)*size-l.back*size+1)
	if l.read < size {
		l.read = 0
	}
	return nil
}

// wholeList reads a response that is one list.
func wholeList(d *decoder, each func() error) error {
	isList, err := list(d, each)
	if errors.Is(err, io.EOF) {
		return &syntaxError{text: "the answer is empty, where a list was asked for", cut: true}
	}
	if err == nil && !isList {
		err = &syntaxError{text: "the answer is not a list"}
	}
	if err != nil {
		return err
	}
	return finish(d)
}

// follow reports whether the response has a link to a next page, with a larger number.
func follow(response *buildkite.Response, page int) (bool, error) {
	switch {
	case response.NextPage == 0 && strings.Contains(response.Header.Get("Link"), `rel="next"`),
		response.NextPage != 0 && response.NextPage <= page:
		return false, errNoNext
	}
	return response.NextPage != 0, nil
}

// readAll reads a list of records and calls keep for each. It reports invalid records and
// leaves them out.
func readAll[T any, P record[T]](ctx context.Context, s *session, kind string, l *listing, keep func(T)) error {
	return s.list(ctx, l, func(d *decoder) (string, error) {
		r, valid, err := decode[T, P](s, kind, d)
		if valid {
			keep(r)
		}
		return "", err
	})
}

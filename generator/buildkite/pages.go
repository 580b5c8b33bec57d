package buildkite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	buildkite "github.com/buildkite/go-buildkite/v3/buildkite"
	"github.com/go-json-experiment/json/jsontext"
)

// listing is a list that is read page by page, in one call of [Client.Snapshot]
// or in several: it says how far the reading has come.
//
// Pages are numbered, so a list that changes between two pages shifts. What
// comes in is listed again, which does no harm. What goes makes as many records
// slip from a page that is still to be read into one that has been read. So a
// page can be asked for in such a way that it begins with records that were read
// already: when none of them is there, the reading goes back. Buildkite
// documents no order of its lists; that it is a fixed one is all that this needs.
type listing struct {
	path  string
	query url.Values
	// overlap is how many records each page shares with what was read before;
	// zero shares none, and what slips is missed.
	overlap int

	read  int             // records from the first on that have been read
	known map[string]bool // their identifiers
	pages int             // requests with a good answer
	page  int             // the page's number, for errors
	far   int             // the furthest that read has been
	back  int             // times that the reading went back since it was there
	check bool            // the next page must follow what was read
}

const (
	// maxPages bounds a list: no organisation has a hundred thousand agents or
	// unfinished builds, and a server that always names a next page is broken.
	maxPages = 1000
	// maxBack bounds how often the reading of a list goes back from one place.
	maxBack = 10
)

var (
	errNoNext  = errors.New("the Link header names no next page that can be followed")
	errTooMany = fmt.Errorf("the list continues after %d pages", maxPages)
	errShifts  = fmt.Errorf("the list changes faster than it can be read: %d times a page did not follow the one before", maxBack)
)

// next returns the number and the size of the page to ask for, and whether it
// must share records with those read.
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

// furthest returns the page that reaches the furthest of those that begin at
// least overlap records before from. Records from (page-1)×size on are on it.
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

// list reads what is left of a list and calls each for each record, which each
// consumes. It returns the record's identifier; none is needed of an invalid one.
func (s *session) list(ctx context.Context, l *listing, each func(*jsontext.Decoder) (id string, err error)) error {
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

// readPage reads the next page and reports whether another follows. A page that
// fails changes nothing: it is the next one again.
func (s *session) readPage(ctx context.Context, l *listing, each func(*jsontext.Decoder) (string, error)) (more bool, err error) {
	page, size, shares := l.next(s.client.cfg.PerPage)
	l.page = page
	query := url.Values{"page": {strconv.Itoa(page)}, "per_page": {strconv.Itoa(size)}}
	for name, values := range l.query {
		query[name] = values
	}
	var ids []string
	follows := !shares || page == 1
	response, err := s.get(ctx, l.path+"?"+query.Encode(), func(d *jsontext.Decoder) error {
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
	return more, nil
}

// goBack lets the reading begin again further in front, by a page, then by two,
// and so on.
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

// wholeList consumes a list that is the whole answer.
func wholeList(d *jsontext.Decoder, each func() error) error {
	isList, err := list(d, each)
	if errors.Is(err, io.EOF) {
		return &syntaxError{"the answer is empty, where a list was asked for"}
	}
	if err == nil && !isList {
		err = &syntaxError{"the answer is not a list"}
	}
	if err != nil {
		return err
	}
	return finish(d)
}

// follow reports whether the answer names a next page, which has the next number.
func follow(response *buildkite.Response, page int) (bool, error) {
	switch {
	case response.NextPage == 0 && strings.Contains(response.Header.Get("Link"), `rel="next"`),
		response.NextPage != 0 && response.NextPage <= page:
		return false, errNoNext
	}
	return response.NextPage != 0, nil
}

// readAll reads a list of records that is not kept from one call to the next.
// Invalid records are reported and left out.
func readAll[T any, P record[T]](ctx context.Context, s *session, kind string, l *listing, keep func(T)) error {
	return s.list(ctx, l, func(d *jsontext.Decoder) (string, error) {
		r, valid, err := decode[T, P](s, kind, d)
		if valid {
			keep(r)
		}
		return "", err
	})
}

// absent reports whether the error is Buildkite's word that there is nothing to
// read, or not for this token.
func absent(err error) bool { return hasStatus(err, http.StatusForbidden, http.StatusNotFound) }

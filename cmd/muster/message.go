package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"muster/generator/ledger"
)

// messageSettings are the flags that say how commit messages are written.
type messageSettings struct {
	signOff    bool
	coAuthors  []string
	skipMarker string
}

// plainMarker is the skip marker unless told.
const plainMarker = "[skip ci]"

func (m *messageSettings) addTo(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&m.signOff, "sign-off", false, "add Signed-off-by with the author to commits")
	f.StringArrayVar(&m.coAuthors, "co-author", nil, "add Co-authored-by to commits, as \"Name <address>\"; repeatable")
	f.StringVar(&m.skipMarker, "skip-marker", plainMarker, "text in commits that prevents CI builds; empty omits it")
}

// style is how messages are written. Mistakes in it are the user's to fix.
func (s *gitSettings) style() (ledger.Style, error) {
	m := s.message
	style := ledger.Style{CoAuthors: m.coAuthors, NoSkip: m.skipMarker == ""}
	if m.skipMarker != plainMarker {
		style.Skip = m.skipMarker
	}
	if m.signOff {
		style.SignOff = fmt.Sprintf("%s <%s>", s.authorName, s.authorEmail)
	}
	if err := style.Check(); err != nil {
		return style, usage(err)
	}
	return style, nil
}

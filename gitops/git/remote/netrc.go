package remote

import (
	"cmp"
	"context"
	"os"
	"regexp"
	"strings"
)

// netrc returns the login that the netrc file contains for the server, like curl does for git. It
// returns nil without a login, or with only one that the server has rejected.
func (c *Connection) netrc(context.Context) *login {
	if c.Credentials.NetrcFile == "" {
		return nil
	}
	text, err := os.ReadFile(c.Credentials.NetrcFile)
	if err != nil {
		c.Log.Debug("reading the netrc file", "repository", c.Address.String(), "err", err)
		return nil
	}
	username, password := findNetrc(string(text), c.Address.Host, c.Address.User)
	if password == "" || c.wrong != nil && c.wrong.username == username && c.wrong.password == password {
		return nil
	}
	return &login{username: username, password: password, approved: true}
}

// findNetrc returns the first entry for a host in a file in the format of curl's netrc. If user is
// not empty, entries for other users are skipped. An entry "default" matches every host.
func findNetrc(text, host, user string) (username, password string) {
	matches := false // the entry is for the host
	words := append(netrcWords(text), "default")
	for i := 0; i < len(words); i++ {
		value := words[min(i+1, len(words)-1)]
		switch key := words[i]; key {
		case "machine", "default":
			if matches && (user == "" || username == "" || username == user) {
				return cmp.Or(username, user), password
			}
			matches, username, password = key == "default" || strings.EqualFold(value, host), "", ""
			if key == "machine" {
				i++
			}
		case "login":
			username = value
			i++
		case "password":
			password = value
			i++
		case "account":
			i++
		}
	}
	return "", ""
}

var (
	// netrcMacro is a macro definition, which ends at an empty line.
	netrcMacro = regexp.MustCompile(`(?s)(^|\s)macdef([ \t\r].*?)?(\n[ \t\r]*\n|$)`)
	// netrcWord is a comment, a word in quotes, or a word.
	netrcWord = regexp.MustCompile(`#.*|"((?:[^"\\\n]|\\.)*)"?|\S+`)
	// netrcEscape is an escape sequence in quotes.
	netrcEscape = regexp.MustCompile(`\\.`)
)

// netrcWords returns the words of a netrc file, without comments, macro definitions and quotes.
func netrcWords(text string) []string {
	var words []string
	for _, m := range netrcWord.FindAllStringSubmatch(netrcMacro.ReplaceAllString(text, "\n"), -1) {
		switch m[0][0] {
		case '#':
		case '"':
			words = append(words, netrcEscape.ReplaceAllStringFunc(m[1], unescape))
		default:
			words = append(words, m[0])
		}
	}
	return words
}

// unescape returns the character that an escape sequence represents.
func unescape(sequence string) string {
	switch sequence[1] {
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	}
	return sequence[1:]
}

package remote

import (
	"cmp"
	"context"
	"os"
	"strings"
	"unicode"
)

// netrc returns what the file has for the server, as curl does for git; nil where it has
// nothing, or what the server did not take.
func (c *Connection) netrc(context.Context) *login {
	if c.Credentials.NetrcFile == "" {
		return nil
	}
	text, err := os.ReadFile(c.Credentials.NetrcFile)
	if err != nil {
		c.Log.Debug("reading the netrc file", "repository", c.Address.String(), "err", err)
		return nil
	}
	username, password := findNetrc(string(text), c.Address.host(), c.Address.username)
	if password == "" || c.wrong != nil && c.wrong.username == username && c.wrong.password == password {
		return nil
	}
	return &login{username: username, password: password, approved: true}
}

// findNetrc returns the first entry of a text in the format of curl's netrc for a host,
// and for a user where one is named. An entry "default" is for every host, and the last.
func findNetrc(text, host, user string) (username, password string) {
	found := false // in an entry for the host
	words := netrcWords(text)
	for i := 0; i < len(words); i++ {
		value := ""
		if i+1 < len(words) {
			value = words[i+1]
		}
		switch words[i] {
		case "machine", "default":
			if found && (user == "" || username == "" || username == user) {
				return cmp.Or(username, user), password
			}
			found, username, password = words[i] == "default" || strings.EqualFold(value, host), "", ""
			if words[i] == "machine" {
				i++
			}
		case "login", "password", "account":
			i++
			switch {
			case found && words[i-1] == "login":
				username = value
			case found && words[i-1] == "password":
				password = value
			}
		}
	}
	if !found || user != "" && username != "" && username != user {
		return "", ""
	}
	return cmp.Or(username, user), password
}

// netrcWords are the words of the text: without comments, macros, and the quotes around
// what has blanks in it.
func netrcWords(text string) []string {
	var words []string
	macro := false
	for line := range strings.Lines(text) {
		if macro = macro && strings.TrimSpace(line) != ""; macro {
			continue
		}
		for line = strings.TrimSpace(line); line != "" && !macro && line[0] != '#'; line = strings.TrimSpace(line) {
			var word string
			word, line = netrcWord(line)
			if macro = word == "macdef"; !macro { // up to an empty line
				words = append(words, word)
			}
		}
	}
	return words
}

// netrcWord cuts the first word off a line that begins with it.
func netrcWord(line string) (word, rest string) {
	if line[0] != '"' {
		end := strings.IndexFunc(line, unicode.IsSpace)
		if end < 0 {
			return line, ""
		}
		return line[:end], line[end:]
	}
	var b strings.Builder
	for i := 1; i < len(line); i++ {
		switch {
		case line[i] == '"':
			return b.String(), line[i+1:]
		case line[i] == '\\' && i+1 < len(line):
			i++
			b.WriteByte(escaped(line[i]))
		default:
			b.WriteByte(line[i])
		}
	}
	return b.String(), ""
}

// escaped is what stands behind a backslash in quotes.
func escaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

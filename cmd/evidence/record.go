package evidence

import (
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"muster/gitops/branch"
)

// record is an object in JSON, as a service sent it. Values of other types than requested count as absent.
type record map[string]any

func (r record) text(key string) string {
	text, _ := r[key].(string)
	return text
}

func (r record) object(key string) record {
	object, _ := r[key].(map[string]any)
	return object
}

// jobs returns the jobs of a build.
func (r record) jobs() (all []record) {
	list, _ := r["jobs"].([]any)
	for _, x := range list {
		if object, ok := x.(map[string]any); ok {
			all = append(all, object)
		}
	}
	return all
}

// texts returns a list of strings; false if the value is something else.
func (r record) texts(key string) (all []string, ok bool) {
	list, ok := r[key].([]any)
	for _, x := range list {
		text, isText := x.(string)
		all, ok = append(all, text), ok && isText
	}
	return all, ok
}

// time returns a time; zero if it is absent or invalid.
func (r record) time(key string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, r.text(key))
	return at
}

// has reports whether the key exists, also with the value null.
func (r record) has(key string) bool {
	_, ok := r[key]
	return ok
}

// kind describes the value of a key without its content.
func (r record) kind(key string) string {
	value, ok := r[key]
	switch value.(type) {
	case nil:
		if ok {
			return "null"
		}
		return "absent"
	case bool:
		return fmt.Sprint(value)
	case string:
		return "a string"
	case float64:
		return "a number"
	case []any:
		return "a list"
	}
	return "an object"
}

// word returns a word of a service, such as a state, without what may be secret.
func word(text string) string {
	if text == "" {
		return "(empty)"
	}
	return branch.OneLine(noWord.ReplaceAllString(text, "?"), 30)
}

var noWord = regexp.MustCompile(`[^a-z_]`)

// decode returns an object in JSON; nil if it is invalid.
func decode(raw []byte) (r record) {
	_ = json.Unmarshal(raw, &r)
	return r
}

// decodeList returns a list of objects in JSON; nil if it is invalid.
func decodeList(raw []byte) (all []record) {
	_ = json.Unmarshal(raw, &all)
	return all
}

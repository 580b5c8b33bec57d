package kube

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Event is a change of an object: ADDED, MODIFIED or DELETED.
type Event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// meta is what every object and list has.
type meta struct {
	Metadata struct {
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
}

type list struct {
	meta
	Items []json.RawMessage `json:"items"`
}

// Watch calls f with what is there, as ADDED, and with each change from then on, until
// the context ends. Where the server was away it reads all again, and tells of what is
// gone meanwhile as DELETED, with the object as it was last seen. f is called by one
// goroutine.
func (c *Client) Watch(ctx context.Context, path string, f func(Event)) {
	known := map[string]Event{}
	for ctx.Err() == nil {
		version, err := c.relist(ctx, path, known, f)
		if err == nil {
			c.follow(ctx, path, version, known, f)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *Client) relist(ctx context.Context, path string, known map[string]Event, f func(Event)) (string, error) {
	var all list
	if err := c.Get(ctx, path, &all); err != nil {
		return "", err
	}
	there := map[string]bool{}
	for _, item := range all.Items {
		var m meta
		if err := json.Unmarshal(item, &m); err != nil {
			return "", err
		}
		there[m.Metadata.UID] = true
		kind := "MODIFIED"
		if _, seen := known[m.Metadata.UID]; !seen {
			kind = "ADDED"
		}
		known[m.Metadata.UID] = Event{Object: item}
		f(Event{Type: kind, Object: item})
	}
	for uid, last := range known {
		if !there[uid] {
			delete(known, uid)
			f(Event{Type: "DELETED", Object: last.Object})
		}
	}
	return all.Metadata.ResourceVersion, nil
}

func (c *Client) follow(ctx context.Context, path, version string, known map[string]Event, f func(Event)) {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	response, err := c.send(ctx, http.MethodGet, path+separator+"watch=1&resourceVersion="+version, "", nil)
	if err != nil {
		return
	}
	defer response.Body.Close()
	for changes := json.NewDecoder(response.Body); ; {
		var event Event
		if changes.Decode(&event) != nil {
			return
		}
		var m meta
		if json.Unmarshal(event.Object, &m) != nil || m.Metadata.UID == "" {
			return // an error, as when the version is too old
		}
		if event.Type == "DELETED" {
			delete(known, m.Metadata.UID)
		} else {
			known[m.Metadata.UID] = event
		}
		f(event)
	}
}

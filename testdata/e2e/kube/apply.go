package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Apply applies every document of a text in YAML, as kubectl apply --server-side
// does.
func (c *Client) Apply(ctx context.Context, text string) error {
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		raw, err := yaml.YAMLToJSON([]byte(document))
		if err != nil {
			return err
		}
		if string(raw) == "null" {
			continue
		}
		if err := c.applyOne(ctx, raw); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) applyOne(ctx context.Context, raw []byte) error {
	var object struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &object); err != nil {
		return err
	}
	path := Path(object.APIVersion, plural(object.Kind), object.Metadata.Namespace, object.Metadata.Name)
	path += "?fieldManager=suite&force=true"
	for try := 0; ; try++ {
		err := c.Do(ctx, http.MethodPatch, path, "application/apply-patch+yaml", raw, nil)
		if err == nil {
			return nil
		}
		// A kind that was defined just now is known in a moment, and a server that has
		// begun just now may be slow.
		if !Missing(err) && !Slow(err) || try == 100 || ctx.Err() != nil {
			return fmt.Errorf("applying %s %s: %w", object.Kind, object.Metadata.Name, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// plural is the resource of a kind, for those that the suite applies.
func plural(kind string) string {
	name := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(name, "y"):
		return strings.TrimSuffix(name, "y") + "ies"
	case strings.HasSuffix(name, "ss"):
		return name + "es"
	}
	return name + "s"
}

// Path is where objects are: all of a resource where the name is empty, and those of
// every namespace, or of the cluster, where the namespace is.
func Path(apiVersion, resource, namespace, name string) string {
	path := "/apis/" + apiVersion
	if !strings.Contains(apiVersion, "/") {
		path = "/api/" + apiVersion
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + resource
	if name != "" {
		path += "/" + name
	}
	return path
}

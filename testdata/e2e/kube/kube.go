// Package kube asks an API server over plain HTTP and JSON: as much of a client
// as the suite needs, so that it compiles in seconds.
package kube

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Client asks one API server.
type Client struct {
	// URL is the server, Token who asks.
	URL, Token string

	http *http.Client
}

// New returns a client of a server on this machine, whose certificate is its own.
func New(url, token string) *Client {
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, // on loopback, made a second ago
		MaxIdleConnsPerHost: 64,
		ForceAttemptHTTP2:   true,
	}
	return &Client{URL: url, Token: token, http: &http.Client{Transport: transport}}
}

// Refusal is an answer that is not 2xx.
type Refusal struct {
	Status  int
	Reason  string
	Message string
}

// Error is what the server said.
func (r *Refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Reason, r.Message) }

// Missing says that the server has no such object.
func Missing(err error) bool {
	var refusal *Refusal
	return errors.As(err, &refusal) && refusal.Status == http.StatusNotFound
}

// Slow says that the server took too long, or has too much to do.
func Slow(err error) bool {
	var refusal *Refusal
	return errors.As(err, &refusal) && (refusal.Status == http.StatusGatewayTimeout || refusal.Status == http.StatusTooManyRequests)
}

// Exists says that the server has such an object already.
func Exists(err error) bool {
	var refusal *Refusal
	return errors.As(err, &refusal) && refusal.Status == http.StatusConflict
}

// Do asks, and decodes the answer into result where that is not nil. A body that is
// no []byte is encoded as JSON. contentType is JSON where it is empty.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body, result any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	response, err := c.send(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if result == nil {
		_, err := io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(result)
}

func (c *Client) send(ctx context.Context, method, path, contentType string, body any) (*http.Response, error) {
	var content io.Reader
	if raw, ok := body.([]byte); ok {
		content = bytes.NewReader(raw)
	} else if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	if contentType == "" {
		contentType = "application/json"
	}
	request.Header.Set("Content-Type", contentType)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close()
	refusal := &Refusal{Status: response.StatusCode}
	text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if json.Unmarshal(text, refusal) != nil || refusal.Message == "" {
		refusal.Message = strings.TrimSpace(string(text))
	}
	refusal.Status = response.StatusCode
	return nil, refusal
}

// UnmarshalJSON reads the parts of a Status; its field status is a word.
func (r *Refusal) UnmarshalJSON(text []byte) error {
	var status struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	}
	err := json.Unmarshal(text, &status)
	r.Reason, r.Message = status.Reason, status.Message
	return err
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, path string, result any) error {
	return c.Do(ctx, http.MethodGet, path, "", nil, result)
}

// Post makes an object, or asks a subresource.
func (c *Client) Post(ctx context.Context, path string, body any) error {
	return c.Do(ctx, http.MethodPost, path, "", body, nil)
}

// Merge patches an object with a JSON merge patch.
func (c *Client) Merge(ctx context.Context, path string, patch any) error {
	return c.Do(ctx, http.MethodPatch, path, "application/merge-patch+json", patch, nil)
}

// Strategic patches an object with a strategic merge patch, which merges
// conditions by their type.
func (c *Client) Strategic(ctx context.Context, path string, patch any) error {
	return c.Do(ctx, http.MethodPatch, path, "application/strategic-merge-patch+json", patch, nil)
}

// Delete deletes an object; one that is not there is no mistake. options is the
// body, or nil.
func (c *Client) Delete(ctx context.Context, path string, options any) error {
	err := c.Do(ctx, http.MethodDelete, path, "", options, nil)
	if Missing(err) {
		return nil
	}
	return err
}

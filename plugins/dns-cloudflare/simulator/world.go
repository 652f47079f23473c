// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// world is where the zones are when the simulator is part of a sandbox: its DNS
// server serves them, and people change them by hand.
type world struct {
	base   string
	client *http.Client
}

func newWorld(base string) *world {
	if base == "" {
		return nil
	}
	return &world{base, &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// The world's documents.
type (
	hosted struct {
		Name        string   `json:"name"`
		Provider    string   `json:"provider"`
		NameServers []string `json:"name_servers"`
		Version     uint32   `json:"version"`
		Records     []entry  `json:"records"`
		Veiled      []veiled `json:"veiled"`
	}
	entry struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Content  string `json:"content"`
		TTL      int    `json:"ttl"`
		Priority *int   `json:"priority,omitempty"`
	}
	veiled struct {
		Record entry  `json:"record"`
		As     string `json:"as"`
	}
)

// errMoved: somebody else changed the zone meanwhile.
var errMoved = errors.New("the zone has changed in the world")

// zones lists Cloudflare's zones, or the one with this name.
func (w *world) zones(ctx context.Context, name string) ([]hosted, error) {
	var out []hosted
	query := url.Values{"provider": {provider}}
	if name != "" {
		query.Set("name", name)
	}
	return out, w.call(ctx, http.MethodGet, "/zones?"+query.Encode(), nil, &out)
}

// edit makes a zone what h says if it still has h's version.
func (w *world) edit(ctx context.Context, h hosted) error {
	return w.call(ctx, http.MethodPut, "/zones/"+url.PathEscape(h.Name), h, nil)
}

func (w *world) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, w.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the world: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("ask the world: %w", err)
	case resp.StatusCode == http.StatusConflict:
		return errMoved
	case resp.StatusCode == http.StatusBadRequest: // no server serves such records
		var said struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(answer, &said)
		return refusal{1004, "DNS Validation Error: " + said.Error}
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("ask the world: it answered %d", resp.StatusCode)
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}

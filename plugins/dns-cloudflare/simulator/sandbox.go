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

// sandboxClient reads and edits the zones of the sandbox at simulate.Options.World. The sandbox
// stores the zones, its DNS server serves them, and people can edit them.
type sandboxClient struct {
	base   string
	client *http.Client
}

// newSandboxClient returns nil for an empty URL, because the simulator then runs outside a sandbox.
func newSandboxClient(base string) *sandboxClient {
	if base == "" {
		return nil
	}
	return &sandboxClient{base, &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// The JSON documents of the sandbox's calls. Records with the Mode "proxied" or "flattened" are
// veiled (see adapters/sandbox/zones): the DNS server answers with addresses of the proxy, or with
// records of the CNAME's target. It serves a record with an empty Mode unchanged.
type (
	sandboxZone struct {
		Name        string          `json:"name"`
		Provider    string          `json:"provider"`
		NameServers []string        `json:"name_servers"`
		Version     uint32          `json:"version"`
		Records     []sandboxRecord `json:"records"`
		Veiled      []servedRecord  `json:"veiled"`
	}
	sandboxRecord struct {
		Type     string `json:"type"`
		Name     string `json:"name"`
		Content  string `json:"content"`
		TTL      int    `json:"ttl"`
		Priority *int   `json:"priority,omitempty"`
	}
	servedRecord struct {
		Record sandboxRecord `json:"record"`
		Mode   string        `json:"as"`
	}
)

// errZoneChanged is the error of sandboxClient.edit for a zone that has a different version.
var errZoneChanged = errors.New("the zone has changed in the sandbox")

// zones returns the zones at Cloudflare, or only the zone with this name if name is not empty.
func (c *sandboxClient) zones(ctx context.Context, name string) ([]sandboxZone, error) {
	var out []sandboxZone
	query := url.Values{"provider": {provider}}
	if name != "" {
		query.Set("name", name)
	}
	err := c.call(ctx, http.MethodGet, "/zones?"+query.Encode(), nil, &out)
	return out, err
}

// edit replaces the records of the zone in the sandbox. It fails with errZoneChanged if that zone
// does not have zone.Version any more, and with a refusal if the sandbox cannot serve the records.
func (c *sandboxClient) edit(ctx context.Context, zone sandboxZone) error {
	return c.call(ctx, http.MethodPut, "/zones/"+url.PathEscape(zone.Name), zone, nil)
}

func (c *sandboxClient) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("call the sandbox: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("call the sandbox: %w", err)
	case resp.StatusCode == http.StatusConflict:
		return errZoneChanged
	case resp.StatusCode == http.StatusBadRequest: // a DNS server cannot serve these records
		var refused struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(answer, &refused)
		return refusal{1004, "DNS Validation Error: " + refused.Error}
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("call the sandbox: unexpected status %d", resp.StatusCode)
	case out == nil:
		return nil
	}
	return json.Unmarshal(answer, out)
}

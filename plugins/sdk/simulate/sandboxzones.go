// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// sandboxZones is a client of the sandbox's HTTP interface for simulators (Options.World).
type sandboxZones struct {
	base     string
	provider string
	client   *http.Client
}

// newSandboxZones returns nil if base is empty, because the simulator then stores the zones itself.
func newSandboxZones(base, provider string) *sandboxZones {
	if base == "" {
		return nil
	}
	return &sandboxZones{base, provider, &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
}

// zones returns the provider's zones, or only the zone with this name if name is not empty.
func (s *sandboxZones) zones(ctx context.Context, name string) (found []Zone, err error) {
	query := url.Values{"provider": {s.provider}}
	if name != "" {
		query.Set("name", name)
	}
	err = s.call(ctx, http.MethodGet, "/zones?"+query.Encode(), nil, &found)
	return found, err
}

func (s *sandboxZones) edit(ctx context.Context, name string, version uint32, records []Record) error {
	body := map[string]any{"version": version, "records": append([]Record{}, records...)}
	return s.call(ctx, http.MethodPut, "/zones/"+url.PathEscape(name), body, nil)
}

// call sends request as JSON. If answer is not nil, call decodes the answer into it. If the sandbox
// answers with 404, 409 or 400, the error is ErrNoZone, ErrZoneChanged or InvalidRecords.
func (s *sandboxZones) call(ctx context.Context, method, path string, request, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return fmt.Errorf("call the sandbox: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return fmt.Errorf("call the sandbox: %w", err)
	case resp.StatusCode == http.StatusNotFound:
		return ErrNoZone
	case resp.StatusCode == http.StatusConflict:
		return ErrZoneChanged
	case resp.StatusCode == http.StatusBadRequest:
		var refused struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(raw, &refused) // if there is no text, the error is still InvalidRecords
		return InvalidRecords(refused.Error)
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("call the sandbox: unexpected status %d", resp.StatusCode)
	case answer == nil:
		return nil
	}
	return json.Unmarshal(raw, answer)
}

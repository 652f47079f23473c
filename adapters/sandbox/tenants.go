// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// relay passes a call on to the simulator and its answer back.
func (s *simulator) relay(r *http.Request, path string) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	answer, err := s.ask(r.Context(), r.Method, path, body)
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// addTenant makes one more simulated tenant.
func (c *controller) addTenant(r *http.Request) (any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return c.makeTenant(r.Context(), body, "", false)
}

// makeTenant has a tenant made and remembers its administrator.
func (w *World) makeTenant(ctx context.Context, body []byte, name string, seeded bool) (relayed, error) {
	s, ok := w.answering("tenants")
	if !ok {
		return relayed{}, missing("there is no simulator of a mail platform")
	}
	if len(bytes.TrimSpace(body)) == 0 {
		body = []byte("{}")
	}
	answer, err := s.ask(ctx, http.MethodPost, "/tenants", body)
	if err != nil || answer.status != http.StatusOK {
		return answer, err
	}
	made := entry{Name: name, Seeded: seeded}
	if err := json.Unmarshal(answer.body, &made); err != nil || made.TenantID == "" || made.Admin == "" {
		return relayed{}, fmt.Errorf("the simulator of %s made a tenant without saying which", s.ready.Provider)
	}
	return answer, w.tenants.add(made)
}

// consentOf says how a tenant's consent stands at its platform.
func (w *World) consentOf(ctx context.Context, id string) (string, error) {
	s, ok := w.answering("tenants")
	if !ok {
		return "", missing("there is no simulator of a mail platform")
	}
	answer, err := s.ask(ctx, http.MethodGet, "/tenants/"+url.PathEscape(id), nil)
	switch {
	case err != nil:
		return "", err
	case answer.status == http.StatusNotFound:
		return "", missing("there is no such tenant")
	case answer.status != http.StatusOK:
		return "", fmt.Errorf("the simulator of %s answered %d", s.ready.Provider, answer.status)
	}
	var held struct {
		Consent string `json:"consent"`
	}
	if err := json.Unmarshal(answer.body, &held); err != nil {
		return "", fmt.Errorf("tenant at the simulator of %s: %w", s.ready.Provider, err)
	}
	return held.Consent, nil
}

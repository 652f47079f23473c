// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/core/dns"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// conflict begins what the server says of a CNAME that would not stand alone.
const conflict = "Conflicts with pre-existing RRset"

// call makes one request below the server's id and decodes the answer into out
// unless that is nil.
func (p *provider) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return sdk.BrokenBy("encode")
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, body)
	if err != nil {
		return sdk.Misconfigured("api_url", "it makes no request")
	}
	req.Header.Set("X-API-Key", p.key.Reveal())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		return sdk.NoAnswer(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return sdk.NoAnswer(err)
	}
	if err := refusal(resp, raw); err != nil || out == nil {
		return err
	}
	if json.Unmarshal(raw, out) != nil {
		return sdk.BrokenBy("not_json")
	}
	return nil
}

// refusal reads an answer that is no success. Only 422 comes as JSON.
func refusal(resp *http.Response, body []byte) error {
	if err := sdk.TroubleOf(resp.StatusCode, resp.Header, time.Now()); err != nil {
		return err
	}
	cause := "status " + strconv.Itoa(resp.StatusCode)
	switch {
	case resp.StatusCode == http.StatusOK, resp.StatusCode == http.StatusNoContent:
		return nil
	case resp.StatusCode == http.StatusUnauthorized, resp.StatusCode == http.StatusForbidden:
		return sdk.CredentialRefused(cause)
	case resp.StatusCode == http.StatusNotFound:
		return dns.NoZone()
	case resp.StatusCode == http.StatusUnprocessableEntity && strings.Contains(string(body), conflict):
		return dns.Changed()
	case resp.StatusCode == http.StatusUnprocessableEntity, resp.StatusCode == http.StatusBadRequest, resp.StatusCode == http.StatusConflict:
		return sdk.RefusedBy(cause)
	default:
		return sdk.BrokenBy(cause)
	}
}

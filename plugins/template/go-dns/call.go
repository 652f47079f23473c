// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// maxAnswer is the maximum size of an answer in bytes. The API returns a whole zone in one answer.
const maxAnswer = 8 << 20

// call sends one request and decodes the JSON answer into out. It does not repeat a failed request,
// because the host repeats the calls that can be repeated.
func (p *provider) call(ctx context.Context, method, path string, in, out any) error {
	body := io.Reader(http.NoBody)
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return sdk.BrokenAnswer("encode")
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(sdk.WithMaxAnswer(ctx, maxAnswer), method, p.base+path, body)
	if err != nil {
		return sdk.Misconfigured("api_url", "it cannot be used in a request")
	}
	req.Header.Set("Authorization", "Bearer "+p.token.Reveal())
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.http.Do(req)
	if err != nil {
		return sdk.TransportError(err) // decides whether the request may have had an effect
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return sdk.TransportError(err)
	}
	if err := statusError(resp, json.Valid(answer)); err != nil {
		return err
	}
	if json.Unmarshal(answer, out) != nil {
		return sdk.BrokenAnswer("not_json")
	}
	return nil
}

// statusError returns the outcome for the status of an answer, or nil for a success. It drops the
// text of the answer, which may contain customer data. An answer that is not JSON comes from a
// proxy in front of the provider, and says nothing about the token or the zone.
func statusError(resp *http.Response, isJSON bool) error {
	if err := sdk.StatusError(resp.StatusCode, resp.Header, time.Now()); err != nil {
		return err // for 408, 429, and 500 or above
	}
	cause := "status " + strconv.Itoa(resp.StatusCode)
	switch status := resp.StatusCode; {
	case status == http.StatusOK:
		return nil
	case !isJSON:
		return sdk.BrokenAnswer(cause)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return sdk.CredentialRefused(cause)
	case status == http.StatusNotFound:
		return sdk.NoZone()
	case status == http.StatusConflict:
		return sdk.ZoneChanged()
	case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity:
		return sdk.RequestRefused(cause)
	default:
		return sdk.BrokenAnswer(cause)
	}
}

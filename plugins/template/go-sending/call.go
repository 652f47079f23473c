// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// errNotFound means that the platform does not have the object in the path.
var errNotFound = errors.New("the platform has no such object")

// call sends one request and decodes the JSON answer into out. It does not repeat a failed request,
// because the host repeats the calls that can be repeated. It fails with errNotFound or an
// sdk.Outcome.
func (p *platform) call(ctx context.Context, method, path string, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, nil)
	if err != nil {
		return sdk.Misconfigured("base_url", "it cannot be used in a request")
	}
	req.Header.Set("Authorization", "Bearer "+p.key.Reveal())
	req.Header.Set("Accept", "application/json")
	if p.workspace != "" {
		req.Header.Set("X-Workspace", p.workspace)
	}
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

// statusError returns the error for the status of an answer, or nil for 200. It drops the text of
// the answer, which may contain customer data. An answer that is not JSON comes from a proxy in
// front of the platform, and says nothing about the key or the object.
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
	case status == http.StatusPaymentRequired:
		return sdk.PlanInactive()
	case status == http.StatusNotFound:
		return errNotFound
	case status == http.StatusBadRequest, status == http.StatusConflict, status == http.StatusUnprocessableEntity:
		return sdk.RequestRefused(cause)
	default:
		return sdk.BrokenAnswer(cause)
	}
}

// asOutcome converts errNotFound to an sdk.Outcome. It is for calls whose path names no object. It
// returns any other error unchanged.
func asOutcome(err error) error {
	if errors.Is(err, errNotFound) {
		return sdk.BrokenAnswer("status 404")
	}
	return err
}

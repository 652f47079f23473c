// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	prefix = "/api/v2"
	// maxAnswer is the maximum size of an answer in bytes. A page has up to 100 accounts with
	// signatures.
	maxAnswer = 8 << 20
)

// errNotFound means that Instantly itself answered 404.
var errNotFound = errors.New("instantly has no such object")

// call makes one request below /api/v2 and decodes a 2xx answer into out. Its errors are
// errNotFound and outcomes. Requests have neither a body nor a content type, because Instantly
// refuses an empty body with the content type of JSON.
func (p *platform) call(ctx context.Context, method, path string, out any) error {
	return p.callWith(ctx, p.http, method, path, out)
}

// callWith is call with the given HTTP client.
func (p *platform) callWith(ctx context.Context, client *http.Client, method, path string, out any) error {
	ctx = sdk.WithMaxAnswer(ctx, maxAnswer)
	req, err := http.NewRequestWithContext(ctx, method, p.base+prefix+path, http.NoBody)
	if err != nil {
		return sdk.RequestRefused("request")
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(p.key.Reveal()))
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "tenantry/"+version)
	resp, err := client.Do(req)
	if err != nil {
		return sdk.TransportError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode/100 != http.StatusOK/100:
		return p.refusal(resp, body)
	case err != nil:
		return sdk.TransportError(err)
	case json.Unmarshal(body, out) != nil:
		return sdk.BrokenAnswer("unexpected_answer")
	}
	return nil
}

// refusal returns the error of an answer that is not 2xx. A status that sdk.StatusError does not
// handle counts only if the body is Instantly's own error envelope. A proxy's page with the same
// status says nothing about the key or the account.
func (p *platform) refusal(resp *http.Response, body []byte) error {
	if err := sdk.StatusError(resp.StatusCode, resp.Header, p.now()); err != nil {
		return err
	}
	var envelope struct {
		StatusCode int `json:"statusCode"`
	}
	cause := "instantly " + strconv.Itoa(resp.StatusCode)
	if json.Unmarshal(body, &envelope) != nil || envelope.StatusCode != resp.StatusCode {
		return sdk.BrokenAnswer(cause + " without its envelope")
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return sdk.CredentialRefused(cause)
	case http.StatusPaymentRequired:
		return sdk.PlanInactive()
	case http.StatusNotFound:
		return errNotFound
	default:
		return sdk.RequestRefused(cause)
	}
}

// asOutcome converts errNotFound to a refusal, for callers that do not handle it.
func asOutcome(err error) error {
	if errors.Is(err, errNotFound) {
		return sdk.RequestRefused("instantly 404")
	}
	return err
}

// lacksScope reports whether Instantly answered 403. Then the key is valid, but usually lacks the
// scope of the call.
func lacksScope(err error) bool {
	return sdk.OutcomeOf(err).Cause == "instantly 403"
}

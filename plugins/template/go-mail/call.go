// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// refusal is an error code of the API.
type refusal struct{ code string }

func (r refusal) Error() string { return "the platform refused: " + r.code }

// isRefusal reports whether err is a refusal of the platform with this code.
func isRefusal(err error, code string) bool {
	var r refusal
	return errors.As(err, &r) && r.code == code
}

// refusals maps the error codes of the API to the codes that tenantry publishes.
var refusals = map[string]string{
	"no_consent": "access_denied", "no_role": "access_denied",
	"login_refused": "connect_link_invalid",
	"no_domain":     "domain_not_found", "domain_name_refused": "invalid_domain", "domain_taken": "domain_unavailable",
	"domain_not_proven": "verification_failed", "domain_not_verified": "domain_not_verified", "domain_used": "domain_in_use",
	"smtp_locked": "smtp_auth_not_enabled", "signing_records_missing": "dkim_not_ready", "no_signing": "dkim_not_ready",
	"no_mailbox": "mailbox_not_found", "address_taken": "invalid_mailbox_email", "password_weak": "weak_password",
}

// call sends one request and decodes the JSON answer into out. It does not repeat a failed request,
// because the host repeats the calls that can be repeated. Its error is an sdk.Outcome.
func (p platform) call(ctx context.Context, method, path string, in, out any) error {
	return asOutcome(p.send(ctx, method, path, in, out))
}

// asOutcome converts a refusal to an sdk.Outcome. It returns any other error unchanged.
func asOutcome(err error) error {
	var r refusal
	if !errors.As(err, &r) {
		return err
	}
	if r.code == "not_ready" {
		return sdk.WaitsFor(r.code, "the platform is not ready for this")
	}
	if code, exists := refusals[r.code]; exists {
		return sdk.RefusedAs(code, r.code, "the platform refused this")
	}
	return sdk.RequestRefused(r.code)
}

// send does the same as call, but its error is a refusal or an sdk.Outcome. Methods that handle
// some refusals themselves use send.
func (p platform) send(ctx context.Context, method, path string, in, out any) error {
	body := io.Reader(http.NoBody)
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return sdk.BrokenAnswer("encode")
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, body)
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
	if err := statusError(resp, answer); err != nil {
		return err
	}
	if json.Unmarshal(answer, out) != nil {
		return sdk.BrokenAnswer("not_json")
	}
	return nil
}

// statusError returns the error for the status of an answer, or nil for a success. It drops the
// text of the answer, which may contain customer data. An answer without an error code comes from a
// proxy in front of the platform, and says nothing about the token or the object.
func statusError(resp *http.Response, answer []byte) error {
	if err := sdk.StatusError(resp.StatusCode, resp.Header, time.Now()); err != nil {
		return err // for 408, 429, and 500 or above
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var doc struct {
		Code string `json:"error"`
	}
	cause := "status " + strconv.Itoa(resp.StatusCode)
	switch err := json.Unmarshal(answer, &doc); {
	case err != nil || doc.Code == "":
		return sdk.BrokenAnswer(cause)
	case resp.StatusCode == http.StatusUnauthorized:
		return sdk.CredentialRefused(cause)
	case resp.StatusCode < http.StatusBadRequest:
		return sdk.BrokenAnswer(cause)
	}
	return refusal{doc.Code}
}

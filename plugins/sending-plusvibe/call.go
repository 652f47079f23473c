// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// maxAnswer is the maximum size of an answer in bytes. Answers contain the signatures of accounts.
const maxAnswer = 8 << 20

// answer is an answer of PlusVibe, with any status.
type answer struct {
	status int
	body   []byte
}

// request is one call of the API. If usesPartnerLogin is true, the call contains no key, because
// asPartner has put the login into the body.
type request struct {
	method, path     string
	query            url.Values
	body             any
	usesPartnerLogin bool
}

// call makes one request. It fails if there is no complete answer, or if sdk.StatusError or refusal
// returns an error for the answer. The caller handles all other statuses.
func (p *platform) call(ctx context.Context, r request) (answer, error) {
	req, err := p.newRequest(sdk.WithMaxAnswer(ctx, maxAnswer), r)
	if err != nil {
		return answer{}, err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return answer{}, sdk.TransportError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := sdk.StatusError(resp.StatusCode, resp.Header, time.Now()); err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, sdk.TransportError(err)
	}
	return answer{resp.StatusCode, body}, refusal(resp, body)
}

func (p *platform) newRequest(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return nil, sdk.BrokenAnswer("encode")
		}
		body = bytes.NewReader(raw)
	}
	target := p.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, sdk.Misconfigured("base_url", "it does not form a valid URL")
	}
	if !r.usesPartnerLogin {
		req.Header.Set("X-Api-Key", p.key.Reveal())
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", p.userAgent)
	return req, nil
}

// refusal returns the error for the statuses 401, 402 and 403. An HTML page with 403 comes from the
// proxy in front of PlusVibe, which does not check keys. The outcome for this page is Throttled.
// The calls of one customer can cause the page, and Broken or Down would open the circuit breaker
// for all customers.
func refusal(resp *http.Response, body []byte) error {
	switch resp.StatusCode {
	case http.StatusForbidden:
		if isHTML(resp.Header.Get("Content-Type"), body) {
			return &sdk.Outcome{Kind: sdk.Throttled, Cause: "edge_block", Detail: "a server in front of the provider refused the call"}
		}
		return sdk.CredentialRefused("plusvibe status 403")
	case http.StatusUnauthorized:
		return sdk.CredentialRefused("plusvibe status 401")
	case http.StatusPaymentRequired:
		return sdk.PlanInactive()
	}
	return nil
}

func isHTML(contentType string, body []byte) bool {
	return strings.HasPrefix(contentType, "text/html") || bytes.HasPrefix(bytes.TrimSpace(body), []byte("<"))
}

// isSuccess reports whether the status is 2xx.
func (a answer) isSuccess() bool { return a.status >= 200 && a.status < 300 }

// decode decodes a 2xx answer. It fails for other statuses and for invalid JSON.
func (a answer) decode(out any) error {
	switch cause := "plusvibe status " + strconv.Itoa(a.status); {
	case a.isSuccess() && json.Unmarshal(a.body, out) == nil:
		return nil
	case a.isSuccess():
		return sdk.BrokenAnswer("unexpected_answer")
	case a.status >= 400:
		return sdk.RequestRefused(cause)
	default:
		return sdk.BrokenAnswer(cause)
	}
}

// text decodes a JSON string, number or boolean. It decodes null to "", and fails for an object or
// array.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	var s string // stays empty for null
	if json.Unmarshal(raw, &s) == nil {
		*t = text(s)
		return nil
	}
	if raw[0] == '{' || raw[0] == '[' {
		return errors.New("neither a text nor a number")
	}
	*t = text(raw)
	return nil
}

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

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// maxAnswer is what is read of an answer: accounts come with their signatures.
const maxAnswer = 8 << 20

// answer is one that says neither "wait" nor "who are you".
type answer struct {
	status int
	body   []byte
}

// request is one call. A partner's call carries its login in the body and no
// key.
type request struct {
	method, path string
	query        url.Values
	body         any
	partner      bool
}

// ask makes a call. What PlusVibe says of the call itself is the caller's to
// judge.
func (p *provider) ask(ctx context.Context, r request) (answer, error) {
	req, err := p.request(sdk.WithMaxAnswer(ctx, maxAnswer), r)
	if err != nil {
		return answer{}, err
	}
	resp, err := p.house.http.Do(req)
	if err != nil {
		return answer{}, sdk.NoAnswer(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := sdk.TroubleOf(resp.StatusCode, resp.Header, time.Now()); err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, sdk.NoAnswer(err)
	}
	return answer{resp.StatusCode, body}, refusal(resp, body)
}

func (p *provider) request(ctx context.Context, r request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return nil, sdk.BrokenBy("encode")
		}
		body = bytes.NewReader(raw)
	}
	address := p.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, sdk.Misconfigured("base_url", "it makes no request")
	}
	if !r.partner {
		req.Header.Set("X-Api-Key", p.key.Reveal())
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", p.agent)
	return req, nil
}

// refusal finds the answers that are about who asks. A page instead of JSON with
// 403 comes from the edge in front of PlusVibe, which knows no keys: it passes. It
// is no sign of an outage either: what one customer gives as a key may bring it
// about, and the circuit of all of them must not open for that.
func refusal(resp *http.Response, body []byte) error {
	switch resp.StatusCode {
	case http.StatusForbidden:
		if page(resp.Header.Get("Content-Type"), body) {
			return &outcome.Error{Kind: outcome.Throttled, Cause: "edge_block", Detail: "the provider's edge turned the call away"}
		}
		return sdk.CredentialRefused("plusvibe status 403")
	case http.StatusUnauthorized:
		return sdk.CredentialRefused("plusvibe status 401")
	case http.StatusPaymentRequired:
		return sdk.PlanInactive()
	}
	return nil
}

func page(contentType string, body []byte) bool {
	return strings.HasPrefix(contentType, "text/html") || bytes.HasPrefix(bytes.TrimSpace(body), []byte("<"))
}

// good reports whether the answer is a success.
func (a answer) good() bool { return a.status >= 200 && a.status < 300 }

// read decodes a good answer.
func (a answer) read(into any) error {
	switch cause := "plusvibe status " + strconv.Itoa(a.status); {
	case a.good() && json.Unmarshal(a.body, into) == nil:
		return nil
	case a.good():
		return sdk.BrokenBy("nonsense")
	case a.status >= 400:
		return sdk.RefusedBy(cause)
	default:
		return sdk.BrokenBy(cause)
	}
}

// loose is a text that may come as a number or not at all.
type loose string

// UnmarshalJSON implements json.Unmarshaler.
func (l *loose) UnmarshalJSON(raw []byte) error {
	var text string // stays empty for null
	if json.Unmarshal(raw, &text) == nil {
		*l = loose(text)
		return nil
	}
	if raw[0] == '{' || raw[0] == '[' {
		return errors.New("neither a text nor a number")
	}
	*l = loose(raw)
	return nil
}

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

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// maxAnswer is what is read of an answer: senders come with their signatures.
const maxAnswer = 8 << 20

// envelope is around every answer. A refusal may come with 200.
type envelope struct {
	Success *bool           `json:"success"`
	Data    json.RawMessage `json:"data"`
}

// ask makes a call and gives the data of a success.
func (p *provider) ask(ctx context.Context, method, path string, query url.Values) (json.RawMessage, error) {
	if err := p.house.pauses.check(p.who); err != nil {
		return nil, err
	}
	req, err := p.request(sdk.WithMaxAnswer(ctx, maxAnswer), method, path, query)
	if err != nil {
		return nil, err
	}
	resp, err := p.house.http.Do(req)
	if err != nil {
		return nil, sdk.NoAnswer(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := sdk.TroubleOf(resp.StatusCode, resp.Header, p.house.pauses.now()); err != nil {
		return nil, p.house.pauses.note(p.who, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, sdk.NoAnswer(err)
	}
	return read(resp.StatusCode, body)
}

func (p *provider) request(ctx context.Context, method, path string, query url.Values) (*http.Request, error) {
	query, in := p.inWorkspace(method, query)
	address := p.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, sdk.BrokenBy("encode")
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, sdk.Misconfigured("base_url", "it makes no request")
	}
	req.Header.Set("Authorization", p.key.Reveal())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "tenantry/"+version)
	return req, nil
}

// read decides what an answer means. One without SalesBlink's envelope comes
// from somebody else, and says nothing of the key.
func read(status int, body []byte) (json.RawMessage, error) {
	var said envelope
	if json.Unmarshal(body, &said) != nil || said.Success == nil {
		return nil, sdk.BrokenBy("nonsense")
	}
	cause := "salesblink status " + strconv.Itoa(status)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return nil, sdk.CredentialRefused(cause)
	case status == http.StatusPaymentRequired:
		return nil, sdk.PlanInactive()
	case status >= http.StatusBadRequest:
		return nil, sdk.RefusedBy(cause)
	case status >= http.StatusMultipleChoices:
		return nil, sdk.BrokenBy(cause)
	case !*said.Success:
		return nil, sdk.RefusedBy("salesblink not_success")
	default:
		return said.Data, nil
	}
}

// tooLow reports whether the role of the key's owner is too low for a call.
func tooLow(err error) bool {
	var o *outcome.Error
	return errors.As(err, &o) && o.Cause == "salesblink status 403"
}

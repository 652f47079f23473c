// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// maxAnswer is the maximum size of an answer in bytes. Answers contain the signatures of senders.
const maxAnswer = 8 << 20

// envelope is the form of every answer. A refusal may have the status 200 and Success false.
type envelope struct {
	Success *bool           `json:"success"`
	Data    json.RawMessage `json:"data"`
}

// call makes one request and returns the data of a successful answer. While the key must wait, call
// fails without a request.
func (p *platform) call(ctx context.Context, method, path string, query url.Values) (json.RawMessage, error) {
	req, err := p.newRequest(sdk.WithMaxAnswer(ctx, maxAnswer), method, path, query)
	if err != nil {
		return nil, err
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, sdk.TransportError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := sdk.StatusError(resp.StatusCode, resp.Header, time.Now()); err != nil {
		return nil, p.pauseKey(ctx, err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, sdk.TransportError(err)
	}
	return decode(resp.StatusCode, body)
}

func (p *platform) newRequest(ctx context.Context, method, path string, query url.Values) (*http.Request, error) {
	query, content := p.inWorkspace(method, query)
	target := p.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	var body io.Reader
	if content != nil {
		raw, err := json.Marshal(content)
		if err != nil {
			return nil, sdk.BrokenAnswer("encode")
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, sdk.Misconfigured("base_url", "it does not form a valid URL")
	}
	req.Header.Set("Authorization", p.key.Reveal())
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "tenantry/"+version)
	return req, nil
}

// decode returns the data of an answer or its error. An answer that is not SalesBlink's envelope
// can come from a proxy, so its status says nothing about the key.
func decode(status int, body []byte) (json.RawMessage, error) {
	var answer envelope
	if json.Unmarshal(body, &answer) != nil || answer.Success == nil {
		return nil, sdk.BrokenAnswer("unexpected_answer")
	}
	cause := "salesblink status " + strconv.Itoa(status)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return nil, sdk.CredentialRefused(cause)
	case status == http.StatusPaymentRequired:
		return nil, sdk.PlanInactive()
	case status >= http.StatusBadRequest:
		return nil, sdk.RequestRefused(cause)
	case status >= http.StatusMultipleChoices:
		return nil, sdk.BrokenAnswer(cause)
	case !*answer.Success:
		return nil, sdk.RequestRefused("salesblink not_success")
	default:
		return answer.Data, nil
	}
}

// isForbidden reports whether SalesBlink answered 403. This means that the role of the key's owner
// does not allow the call.
func isForbidden(err error) bool {
	return sdk.OutcomeOf(err).Cause == "salesblink status 403"
}

// minPause is the minimum time without calls after a 429. SalesBlink's guide requires this pause,
// also after an answer without Retry-After.
const minPause = 60 * time.Second

// pauseKey returns err unchanged if it is not Throttled. Otherwise it makes all calls with the key
// wait for the RetryAfter of err, but at least for minPause. It returns err with this wait.
func (p *platform) pauseKey(ctx context.Context, err error) error {
	result := sdk.OutcomeOf(err)
	if result.Kind != sdk.Throttled {
		return err
	}
	result.RetryAfter = max(result.RetryAfter, minPause)
	p.process.waits.Extend(ctx, p.scope, result.RetryAfter)
	return &result
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// maxWait bounds what Smartlead may ask us to wait.
const maxWait = 10 * time.Minute

// errGone is Smartlead's own 404.
var errGone = errors.New("smartlead does not know it")

// call makes one request and gives the body of a good answer. The key is part
// of the URL, so no error of the HTTP client, which quotes it, is handed on.
func (p *platform) call(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	if query == nil {
		query = url.Values{}
	}
	query.Set("api_key", p.key.Reveal())
	r, err := http.NewRequestWithContext(ctx, method, p.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, sdk.Misconfigured("base_url", "it makes no request")
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "tenantry/"+version)
	resp, err := p.http.Do(r)
	if err != nil {
		return nil, sdk.NoAnswer(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, sdk.NoAnswer(err)
	}
	return body, p.failure(resp, body)
}

// failure reads an answer that is none. The page of a filter in front of
// Smartlead is no word on the key.
func (p *platform) failure(resp *http.Response, body []byte) error {
	words, readable := complaintIn(body)
	cause := "smartlead " + strconv.Itoa(resp.StatusCode)
	if code := string(cmp.Or(words.Code, words.Error.Code)); harmless.MatchString(code) {
		cause += " " + code
	}
	throttled := resp.StatusCode == http.StatusTooManyRequests || words.refuses() && words.Error.Code == "RATE_LIMIT_EXCEEDED"
	switch status := resp.StatusCode; {
	case throttled:
		return &outcome.Error{Kind: outcome.Throttled, Cause: cause, RetryAfter: p.wait(resp.Header, words), Detail: "the provider wants us to wait"}
	case sdk.TroubleOf(status, resp.Header, p.now()) != nil:
		return sdk.TroubleOf(status, resp.Header, p.now())
	case status == http.StatusUnauthorized, status >= 400 && readable && words.ofKey():
		return sdk.CredentialRefused(cause)
	case status == http.StatusPaymentRequired:
		return sdk.PlanInactive()
	case status == http.StatusForbidden && readable:
		return sdk.CredentialRefused(cause)
	case status == http.StatusNotFound && readable:
		return errGone
	case status == http.StatusBadRequest, status == http.StatusConflict, status == http.StatusUnprocessableEntity:
		return sdk.RefusedBy(cause)
	case status < 200 || status > 299:
		return sdk.BrokenBy(cause)
	case words.refuses() && words.ofKey():
		return sdk.CredentialRefused(cause)
	case words.refuses():
		return sdk.BrokenBy(cause)
	}
	return nil
}

// harmless is what an error code looks like; anything else may quote a customer.
var harmless = regexp.MustCompile(`^[A-Z][A-Z_]{1,40}$`)

// wait is how long Smartlead wants us to stay away: by the usual header, by
// its own one with a time, or by the body.
func (p *platform) wait(h http.Header, words complaint) time.Duration {
	var usual *outcome.Error
	if errors.As(sdk.TroubleOf(http.StatusTooManyRequests, h, p.now()), &usual) && usual.RetryAfter > 0 {
		return usual.RetryAfter
	}
	if seconds, err := strconv.Atoi(string(words.Error.RetryAfter)); err == nil && seconds > 0 {
		return min(time.Duration(min(seconds, 3600))*time.Second, maxWait)
	}
	if at, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil {
		return max(0, min(time.Unix(at, 0).Sub(p.now()), maxWait))
	}
	return 0
}

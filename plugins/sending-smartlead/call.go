// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// maxWait limits the wait that an answer requests in its body or in X-RateLimit-Reset.
const maxWait = 10 * time.Minute

// errNotFound means that Smartlead itself answered 404.
var errNotFound = errors.New("smartlead has no such object")

// call makes one request and returns the body of the answer. It fails with errNotFound or an
// outcome. It does not wrap errors of the HTTP client, because they quote the URL, and the URL
// contains the key.
func (p *platform) call(ctx context.Context, method, path string, query url.Values) ([]byte, error) {
	if query == nil {
		query = url.Values{}
	}
	query.Set("api_key", p.key.Reveal())
	r, err := http.NewRequestWithContext(ctx, method, p.base+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, sdk.Misconfigured("base_url", "it does not form a valid URL")
	}
	r.Header.Set("Accept", "application/json")
	r.Header.Set("User-Agent", "tenantry/"+version)
	resp, err := p.http.Do(r)
	if err != nil {
		return nil, sdk.TransportError(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, sdk.TransportError(err)
	}
	err = p.failure(resp, body)
	if result := sdk.OutcomeOf(err); result.Kind == sdk.Throttled {
		// p.http reads only the header Retry-After, but result can have a wait from other parts of
		// the answer.
		p.waits.Extend(ctx, p.scope, result.RetryAfter)
	}
	return body, err
}

// failure returns the error of an answer, nil for a success. An answer with 403 or 404 that is not
// a JSON object comes from the firewall in front of Smartlead. It says nothing about the key or the
// account.
func (p *platform) failure(resp *http.Response, body []byte) error {
	problem, isObject := decodeProblem(body)
	cause := "smartlead " + strconv.Itoa(resp.StatusCode)
	if code := string(problem.code()); safeCode.MatchString(code) {
		cause += " " + code
	}
	if resp.StatusCode == http.StatusTooManyRequests || problem.isError() && problem.Error.Code == "RATE_LIMIT_EXCEEDED" {
		return &sdk.Outcome{Kind: sdk.Throttled, Cause: cause, RetryAfter: p.retryAfter(resp.Header, problem), Detail: "the provider wants us to wait"}
	}
	if err := sdk.StatusError(resp.StatusCode, resp.Header, p.now()); err != nil {
		return err
	}
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized, status >= 400 && isObject && problem.refusesKey():
		return sdk.CredentialRefused(cause)
	case status == http.StatusPaymentRequired:
		return sdk.PlanInactive()
	case status == http.StatusForbidden && isObject:
		return sdk.CredentialRefused(cause)
	case status == http.StatusNotFound && isObject:
		return errNotFound
	case status == http.StatusBadRequest, status == http.StatusConflict, status == http.StatusUnprocessableEntity:
		return sdk.RequestRefused(cause)
	case status < 200 || status > 299:
		return sdk.BrokenAnswer(cause)
	case problem.isError() && problem.refusesKey():
		return sdk.CredentialRefused(cause)
	case problem.isError():
		return sdk.BrokenAnswer(cause)
	}
	return nil
}

// safeCode matches an error code. Other texts may contain customer data.
var safeCode = regexp.MustCompile(`^[A-Z][A-Z_]{1,40}$`)

// retryAfter returns how long to wait after a throttled call. It uses the first of these that
// exists: Retry-After, retry_after in the body, and X-RateLimit-Reset, which contains a Unix time.
// If the answer has none of these, retryAfter returns 0.
func (p *platform) retryAfter(h http.Header, details problem) time.Duration {
	if wait := sdk.RetryAfter(h, p.now()); wait > 0 {
		return wait
	}
	if seconds, err := strconv.Atoi(string(details.Error.RetryAfter)); err == nil && seconds > 0 {
		return min(time.Duration(min(seconds, 3600))*time.Second, maxWait)
	}
	if reset, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil {
		return max(0, min(time.Unix(reset, 0).Sub(p.now()), maxWait))
	}
	return 0
}

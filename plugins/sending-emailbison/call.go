// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// The errors of call that some callers handle. The other callers return asOutcome(err).
var (
	errNotFound  = errors.New("emailbison has no such object")
	errForbidden = errors.New("emailbison does not allow it")
)

// maxAnswer is the maximum size of an answer in bytes. A page has up to 100 accounts with
// signatures.
const maxAnswer = 8 << 20

// call makes one request below /api of the instance and decodes the JSON object of a 2xx answer
// other than 204 into out. If EmailBison itself answers 404 or 403, call returns errNotFound or
// errForbidden. Any other error is an sdk.Outcome.
func (p *platform) call(ctx context.Context, method, path string, out any) error {
	r, err := http.NewRequestWithContext(sdk.WithMaxAnswer(ctx, maxAnswer), method, p.instance+"/api"+path, nil)
	if err != nil {
		return sdk.Misconfigured("instance_url", "it does not form a valid URL")
	}
	r.Header.Set("Authorization", "Bearer "+p.token.Reveal())
	r.Header.Set("Accept", "application/json") // without this header, EmailBison may answer an invalid token with a redirect or an HTML page
	r.Header.Set("User-Agent", "tenantry/"+version)
	resp, err := p.http.Do(r)
	if err != nil {
		return noAnswer(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return sdk.TransportError(err)
	}
	isObject := bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) && json.Valid(body)
	if err := failure(resp, isObject); err != nil {
		return err
	}
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if !isObject || json.Unmarshal(body, out) != nil {
		return sdk.BrokenAnswer("unexpected_answer")
	}
	return nil
}

// noAnswer returns the outcome of a request without an answer. If the certificate is not trusted,
// the outcome is Down and not Unknown, because the request was not sent.
func noAnswer(err error) error {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return &sdk.Outcome{Kind: sdk.Down, Cause: "certificate", Detail: "the certificate of the instance is not trusted"}
	}
	return sdk.TransportError(err)
}

// failure returns the error of an answer, nil for a 2xx status. isObject is true if the body is a
// JSON object. The errors of EmailBison are JSON objects. An HTML page comes from a proxy in front
// of the instance. Its status 403 or 404 says nothing about the token or the account.
func failure(resp *http.Response, isObject bool) error {
	cause := "emailbison " + strconv.Itoa(resp.StatusCode)
	if err := sdk.StatusError(resp.StatusCode, resp.Header, time.Now()); err != nil {
		return err
	}
	switch status := resp.StatusCode; {
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusUnauthorized:
		return sdk.CredentialRefused(cause)
	case status == http.StatusPaymentRequired:
		return sdk.PlanInactive()
	case status == http.StatusForbidden && isObject:
		return errForbidden
	case status == http.StatusNotFound && isObject:
		return errNotFound
	case status == http.StatusBadRequest, status == http.StatusConflict, status == http.StatusUnprocessableEntity:
		return sdk.RequestRefused(cause)
	}
	return sdk.BrokenAnswer(cause)
}

// asOutcome converts errForbidden and errNotFound to outcomes, for callers that do not handle these
// errors.
func asOutcome(err error) error {
	switch {
	case errors.Is(err, errForbidden):
		return sdk.CredentialRefused("emailbison 403")
	case errors.Is(err, errNotFound):
		return sdk.BrokenAnswer("emailbison 404")
	}
	return err
}

// perPage is the requested page size. An instance may ignore it and answer with 15 entries.
const perPage = 100

// listPage is one page of a list in Laravel's format.
type listPage[T any] struct {
	Data  *[]T `json:"data"`
	Links optionalObject[struct {
		Next text `json:"next"`
	}] `json:"links"`
	Meta struct {
		Current text `json:"current_page"`
		Last    text `json:"last_page"`
		Total   text `json:"total"`
	} `json:"meta"`
}

// readPage returns the entries of page number of a list, whether more pages follow, and the total
// number of entries. It fails with Broken if the answer has no list or not the requested page
// number. Otherwise the caller could take one page for the whole list, and report all other
// accounts as removed.
func readPage[T any](ctx context.Context, p *platform, path string, number int, search string) (entries []T, hasMore bool, total int, err error) {
	query := url.Values{"page": {strconv.Itoa(number)}, "per_page": {strconv.Itoa(perPage)}}
	if search != "" {
		query.Set("search", search)
	}
	var page listPage[T]
	if err := p.call(ctx, http.MethodGet, path+"?"+query.Encode(), &page); err != nil {
		return nil, false, 0, err
	}
	if page.Data == nil || page.Meta.Current.integer() != number {
		return nil, false, 0, sdk.BrokenAnswer("unexpected_answer")
	}
	hasMore = page.Links.value.Next != ""
	if last := page.Meta.Last.integer(); last > 0 {
		hasMore = number < last
	}
	return *page.Data, hasMore, page.Meta.Total.integer(), nil
}

// text decodes a JSON string or number. Any other JSON value decodes to "".
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(raw []byte) error {
	*t = ""
	switch {
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(t))
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		*t = text(raw)
	}
	return nil
}

// integer returns the number in t, or 0 if t is not an integer.
func (t text) integer() int {
	n, _ := strconv.Atoi(string(t))
	return n
}

// optionalObject decodes a JSON object into value. Any other JSON value leaves value at its zero
// value, because PHP writes an empty object as [].
type optionalObject[T any] struct{ value T }

// UnmarshalJSON implements json.Unmarshaler.
func (o *optionalObject[T]) UnmarshalJSON(raw []byte) error {
	*o = optionalObject[T]{}
	if raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, &o.value)
}

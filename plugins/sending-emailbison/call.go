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
	"strconv"
	"time"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// What an answer may say without being one.
var (
	errGone   = errors.New("emailbison does not know it")
	errDenied = errors.New("emailbison does not allow it")
)

// call makes one request and decodes the JSON object of a good answer.
func (p *platform) call(ctx context.Context, method, path string, out any) error {
	r, err := http.NewRequestWithContext(ctx, method, p.instance+"/api"+path, nil)
	if err != nil {
		return sdk.Misconfigured("instance_url", "it makes no request")
	}
	r.Header.Set("Authorization", "Bearer "+p.token.Reveal())
	r.Header.Set("Accept", "application/json") // without it a refusal is a redirect to a page
	r.Header.Set("User-Agent", "tenantry/"+version)
	resp, err := p.http.Do(r)
	if err != nil {
		return noAnswer(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return sdk.NoAnswer(err)
	}
	object := bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) && json.Valid(body)
	if err := failure(resp, object); err != nil {
		return err
	}
	if resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if !object || json.Unmarshal(body, out) != nil {
		return sdk.BrokenBy("nonsense")
	}
	return nil
}

// noAnswer is sdk.NoAnswer for a server that somebody else runs: one whose
// certificate is no good was asked nothing.
func noAnswer(err error) error {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return &sdk.Outcome{Kind: sdk.Down, Cause: "certificate", Detail: "the certificate of the instance is not trusted"}
	}
	return sdk.NoAnswer(err)
}

// failure reads an answer that is none. EmailBison's own ones are objects; a
// page comes from something in front of it and is no word on token or account.
func failure(resp *http.Response, object bool) error {
	cause := "emailbison " + strconv.Itoa(resp.StatusCode)
	if trouble := sdk.TroubleOf(resp.StatusCode, resp.Header, time.Now()); trouble != nil {
		return trouble
	}
	switch status := resp.StatusCode; {
	case status >= 200 && status <= 299:
		return nil
	case status == http.StatusUnauthorized:
		return sdk.CredentialRefused(cause)
	case status == http.StatusPaymentRequired:
		return sdk.PlanInactive()
	case status == http.StatusForbidden && object:
		return errDenied
	case status == http.StatusNotFound && object:
		return errGone
	case status == http.StatusBadRequest, status == http.StatusConflict, status == http.StatusUnprocessableEntity:
		return sdk.RefusedBy(cause)
	}
	return sdk.BrokenBy(cause)
}

// settled is an error as callers of this plugin know it.
func settled(err error) error {
	switch {
	case errors.Is(err, errDenied):
		return sdk.CredentialRefused("emailbison 403")
	case errors.Is(err, errGone):
		return sdk.BrokenBy("emailbison 404")
	}
	return err
}

// text is a string or a number; anything else is none.
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

// number is 0 where there is none.
func (t text) number() int {
	n, _ := strconv.Atoi(string(t))
	return n
}

// loose is an object that may be something else: PHP writes an empty one as [].
type loose[T any] struct{ it T }

// UnmarshalJSON implements json.Unmarshaler.
func (l *loose[T]) UnmarshalJSON(raw []byte) error {
	*l = loose[T]{}
	if raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, &l.it)
}

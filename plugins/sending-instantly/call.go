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

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

const (
	prefix = "/api/v2"
	// largestPage is room for a hundred accounts with their signatures.
	largestPage = 8 << 20
)

// errGone: Instantly says that there is no such thing.
var errGone = errors.New("instantly does not know it")

// call makes one request and decodes its answer into out.
// No request of ours has a body: Instantly takes an empty one with a content
// type for a mistake.
func (p *platform) call(ctx context.Context, method, path string, out any) error {
	ctx = sdk.WithMaxAnswer(ctx, largestPage)
	req, err := http.NewRequestWithContext(ctx, method, p.base+prefix+path, http.NoBody)
	if err != nil {
		return sdk.RefusedBy("request")
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(p.key.Reveal()))
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "tenantry/"+version)
	resp, err := p.http.Do(req)
	if err != nil {
		return sdk.NoAnswer(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	switch {
	case resp.StatusCode/100 != http.StatusOK/100:
		return p.refusal(resp, body)
	case err != nil:
		return sdk.NoAnswer(err)
	case json.Unmarshal(body, out) != nil:
		return sdk.BrokenBy("nonsense")
	}
	return nil
}

// refusal reads an answer that is not a success. Only Instantly's own envelope
// says anything of credential or account; a proxy's page with the same status
// does not.
func (p *platform) refusal(resp *http.Response, body []byte) error {
	if err := sdk.TroubleOf(resp.StatusCode, resp.Header, p.now()); err != nil {
		return err
	}
	var envelope struct {
		StatusCode int `json:"statusCode"`
	}
	cause := "instantly " + strconv.Itoa(resp.StatusCode)
	if json.Unmarshal(body, &envelope) != nil || envelope.StatusCode != resp.StatusCode {
		return sdk.BrokenBy(cause + " without its envelope")
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return sdk.CredentialRefused(cause)
	case http.StatusPaymentRequired:
		return sdk.PlanInactive()
	case http.StatusNotFound:
		return errGone
	default:
		return sdk.RefusedBy(cause)
	}
}

// settled turns an errGone that a caller has no meaning for into a refusal.
func settled(err error) error {
	if errors.Is(err, errGone) {
		return sdk.RefusedBy("instantly 404")
	}
	return err
}

// lacksScope reports a key that is good, but not for this.
func lacksScope(err error) bool {
	var o *outcome.Error
	return errors.As(err, &o) && o.Cause == "instantly 403"
}

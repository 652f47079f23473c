// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/cloudflare/cloudflare-go"

	"github.com/tenantry/tenantry/core/outcome"
	"github.com/tenantry/tenantry/plugins/sdk"
)

// taken are the codes of a write that found something at its place: a host with
// another type (81053, 81054), the record itself (81057, 81058).
var taken = []int{81053, 81054, 81057, 81058}

var errTaken = errors.New("something is at the record's place")

// call makes one request and decodes its result. It returns how many things
// there are where the result is a page.
func (p *provider) call(ctx context.Context, method, path string, in, out any) (total int, err error) {
	a, err := p.api.Raw(ctx, method, path, in, nil)
	if err != nil {
		return 0, failure(ctx, err)
	}
	if !a.Success || json.Unmarshal(a.Result, out) != nil {
		return 0, sdk.BrokenBy("nonsense")
	}
	if a.ResultInfo != nil {
		total = a.ResultInfo.Total
	}
	return total, nil
}

// coded is what the library's errors have in common.
type coded interface{ ErrorCodes() []int }

func failure(ctx context.Context, err error) error {
	var o *outcome.Error
	if errors.As(err, &o) {
		return o
	}
	var codes coded
	errors.As(err, &codes)
	var unauthorized *cloudflare.AuthorizationError
	var forbidden *cloudflare.AuthenticationError
	var missing *cloudflare.NotFoundError
	var bad *cloudflare.RequestError
	switch {
	case errors.As(err, &unauthorized), errors.As(err, &forbidden):
		return sdk.CredentialRefused(causeOf("cloudflare", codes))
	case errors.As(err, &missing):
		return sdk.RefusedBy(causeOf("cloudflare not_found", codes))
	case errors.As(err, &bad) && slices.ContainsFunc(taken, func(code int) bool { return slices.Contains(bad.ErrorCodes(), code) }):
		return errTaken
	case errors.As(err, &bad):
		return sdk.RefusedBy(causeOf("cloudflare refused", codes))
	case ctx.Err() != nil:
		return sdk.NoAnswer(ctx.Err())
	default:
		return sdk.NoAnswer(err)
	}
}

func causeOf(what string, codes coded) string {
	if codes == nil || len(codes.ErrorCodes()) == 0 {
		return what
	}
	return fmt.Sprint(what, " ", codes.ErrorCodes()[0])
}

// Check implements sdk.DNSProvider. That a token is active says nothing of what
// it may do, so a page of zones and one of records are read too.
func (p *provider) Check(ctx context.Context) (int, error) {
	verify := "/user/tokens/verify"
	if p.account != "" {
		verify = "/accounts/" + p.account + "/tokens/verify"
	}
	var token struct {
		Status string `json:"status"`
	}
	if _, err := p.call(ctx, http.MethodGet, verify, nil, &token); err != nil {
		return 0, err
	}
	if token.Status != "active" {
		return 0, sdk.CredentialRefused("cloudflare token_not_active")
	}
	var zones []zoneDoc
	total, err := p.call(ctx, http.MethodGet, "/zones?per_page=5", nil, &zones)
	if err != nil || len(zones) == 0 {
		return 0, err
	}
	var records []recordDoc
	_, err = p.call(ctx, http.MethodGet, "/zones/"+zones[0].ID+"/dns_records?per_page=1", nil, &records)
	return max(total, len(zones)), err
}

// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cloudflare/cloudflare-go"

	"github.com/tenantry/tenantry/plugins/sdk"
)

// conflictCodes are the error codes for a write that conflicts with the records of the zone. 81044
// means that a record to change or delete does not exist. 81053 and 81054 mean that the name has a
// record that excludes the new record. 81057 and 81058 mean that a record with the same type, name
// and content exists.
var conflictCodes = []int{81044, 81053, 81054, 81057, 81058}

// jsonErrorPrefix is the beginning of the library's error for an answer that it cannot parse. The
// error has no exported type.
const jsonErrorPrefix = "error unmarshalling the JSON response"

var errConflict = errors.New("the write conflicts with the records of the zone")

// call makes one API request with in as its JSON body, and decodes the result into out. total is
// the number of objects on all pages of a list, or 0 if the answer does not contain it. For the
// error codes in conflictCodes, call fails with errConflict. For all other errors, it fails with an
// outcome of package sdk.
func (p *provider) call(ctx context.Context, method, path string, in, out any) (total int, err error) {
	resp, err := p.api.Raw(ctx, method, path, in, nil)
	if err != nil {
		return 0, classifyError(ctx, err)
	}
	if !resp.Success || json.Unmarshal(resp.Result, out) != nil {
		return 0, sdk.BrokenAnswer("unexpected_answer")
	}
	if resp.ResultInfo != nil {
		total = resp.ResultInfo.Total
	}
	return total, nil
}

// errorWithCodes is implemented by the Cloudflare library's errors that contain error codes.
type errorWithCodes interface{ ErrorCodes() []int }

// classifyError converts an error of the Cloudflare library to an outcome of package sdk, or to
// errConflict.
func classifyError(ctx context.Context, err error) error {
	var outcome *sdk.Outcome
	if errors.As(err, &outcome) {
		return outcome
	}
	var codes errorWithCodes
	errors.As(err, &codes)
	var unauthorized *cloudflare.AuthorizationError
	var forbidden *cloudflare.AuthenticationError
	var notFound *cloudflare.NotFoundError
	var refused *cloudflare.RequestError
	switch {
	case errors.As(err, &unauthorized), errors.As(err, &forbidden):
		return sdk.CredentialRefused(causeWithCode("cloudflare", codes))
	case codes != nil && slices.ContainsFunc(codes.ErrorCodes(), isConflictCode):
		return errConflict
	case errors.As(err, &notFound):
		return sdk.RequestRefused(causeWithCode("cloudflare not_found", codes))
	case errors.As(err, &refused):
		return sdk.RequestRefused(causeWithCode("cloudflare refused", codes))
	case ctx.Err() != nil:
		return sdk.TransportError(ctx.Err())
	case strings.HasPrefix(err.Error(), jsonErrorPrefix): // a page of a proxy, or an incomplete answer
		return sdk.BrokenAnswer("not_json")
	default:
		return sdk.TransportError(err)
	}
}

func isConflictCode(code int) bool { return slices.Contains(conflictCodes, code) }

// causeWithCode appends the first error code of Cloudflare, if there is one, to a cause.
func causeWithCode(cause string, codes errorWithCodes) string {
	if codes == nil || len(codes.ErrorCodes()) == 0 {
		return cause
	}
	return fmt.Sprint(cause, " ", codes.ErrorCodes()[0])
}

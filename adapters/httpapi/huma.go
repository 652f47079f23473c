// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tenantry/tenantry/core/fault"
)

// Huma's error model and its leniency are variables of its package, so they
// are set here once, before anything is registered.
func init() {
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
	huma.NewError = func(int, string, ...error) huma.StatusError { return &problem{} } // only its type counts
	huma.NewErrorWithContext = func(ctx huma.Context, status int, detail string, errs ...error) huma.StatusError {
		return refusalOf(ctx.Context(), ownError(status, errs))
	}
}

// newAPI makes a huma API without its own pages, schema links and formats
// but JSON.
func newAPI(mux *http.ServeMux) huma.API {
	config := huma.Config{
		OpenAPI:       about(),
		Formats:       map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
	}
	config.OnAddOperation = append(config.OnAddOperation, documentParameters)
	return humago.New(mux, config)
}

// maxFields is how many places one refusal names.
const maxFields = 10

// ownError turns what huma itself found wrong into a refusal. By then the
// guard has read the body, so anything but bad input is our own fault.
func ownError(status int, errs []error) error {
	if status != http.StatusUnprocessableEntity && status != http.StatusBadRequest {
		return fault.InternalError
	}
	var fields []fault.Field
	for _, err := range errs {
		if detail, ok := err.(huma.ErrorDetailer); ok && len(fields) < maxFields {
			fields = append(fields, fieldOf(detail.ErrorDetail()))
		}
	}
	return invalid("the request does not have the form that this operation takes", fields...)
}

// plainName is what may stand in a location: names as ours are. Anything else
// in it came from the caller and may be a value in the wrong place.
var plainName = regexp.MustCompile(`^[a-z]+(\.[a-z0-9_]{1,40}|\[[0-9]{1,5}\])*$`)

// fieldOf keeps the place and the rule of a finding and drops the value.
func fieldOf(d *huma.ErrorDetail) fault.Field {
	f := fault.Field{Location: d.Location, Message: d.Message}
	if !plainName.MatchString(f.Location) {
		f.Location, _, _ = strings.Cut(f.Location, ".")
	}
	if strings.HasPrefix(f.Message, "json:") {
		f.Message = "a value does not fit its member"
	}
	return f
}

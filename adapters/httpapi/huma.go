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

// Huma's error model and strictness are package variables. They are set here once, before any
// operation is registered.
func init() {
	huma.ValidateStrictCasing = true
	huma.DefaultArrayNullable = false
	huma.NewError = func(int, string, ...error) huma.StatusError { return &problem{} } // only the type matters
	huma.NewErrorWithContext = func(ctx huma.Context, status int, detail string, errs ...error) huma.StatusError {
		return refusalOf(ctx.Context(), humaRefusal(status, errs))
	}
}

// newAPI returns a huma API that speaks only JSON, without huma's documentation pages and schema
// links.
func newAPI(mux *http.ServeMux) huma.API {
	config := huma.Config{
		OpenAPI:       newDocument(),
		Formats:       map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
	}
	config.OnAddOperation = append(config.OnAddOperation, documentParameters)
	return humago.New(mux, config)
}

// maxFields limits how many fields one error names.
const maxFields = 10

// humaRefusal converts a validation error of huma. The guard has read the body already, so any
// other status is an internal error.
func humaRefusal(status int, errs []error) error {
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

// safeLocation matches locations that contain only names like those of the API. Other parts come
// from the caller and could be a value in the wrong place.
var safeLocation = regexp.MustCompile(`^[a-z]+(\.[a-z0-9_]{1,40}|\[[0-9]{1,5}\])*$`)

// fieldOf returns the location and the message of a finding. It drops the value.
func fieldOf(d *huma.ErrorDetail) fault.Field {
	f := fault.Field{Location: d.Location, Message: d.Message}
	if !safeLocation.MatchString(f.Location) {
		f.Location, _, _ = strings.Cut(f.Location, ".")
	}
	if strings.HasPrefix(f.Message, "json:") {
		f.Message = "a value does not fit its member"
	}
	return f
}

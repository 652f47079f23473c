// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"fmt"
	"strconv"

	"github.com/tenantry/tenantry/adapters/httpapi/refusal"
)

// queryParser parses query parameters and collects the invalid ones. The input types declare
// integers and booleans as text, because huma accepts more forms of them than the OpenAPI document
// allows.
type queryParser struct{ invalid []refusal.ProblemField }

func (p *queryParser) refuse(name, problem string) {
	p.invalid = append(p.invalid, refusal.ProblemField{Location: "query." + name, Message: problem})
}

// integer parses an integer in its shortest decimal form (5, not 05 or +5). A missing parameter
// leaves *into unchanged.
func (p *queryParser) integer(name, raw string, minimum, maximum int, into *int) {
	if raw == "" {
		return
	}
	n, err := strconv.Atoi(raw)
	if err != nil || strconv.Itoa(n) != raw || n < minimum || n > maximum {
		p.refuse(name, fmt.Sprintf("must be an integer from %d to %d", minimum, maximum))
		return
	}
	*into = n
}

// boolean parses "true" or "false". A missing parameter is false.
func (p *queryParser) boolean(name, raw string, into *bool) {
	*into = raw == "true"
	if !*into && raw != "" && raw != "false" {
		p.refuse(name, "must be true or false")
	}
}

// err returns invalid_request if at least one parameter is invalid.
func (p *queryParser) err() error {
	if p.invalid == nil {
		return nil
	}
	return refusal.Invalid("a query parameter is not valid", p.invalid...)
}

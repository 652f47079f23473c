// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/tenantry/tenantry/core/fault"
)

// negotiate refuses callers that cannot take JSON. Pages are not negotiated.
func (g *guard) negotiate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if exchangeOf(r.Context()).route.op != nil && !takesJSON(r.Header.Values("Accept")) {
			refuse(w, r, fault.WrongAccept.With("answers are application/json or application/problem+json"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// specificity ranks the media ranges that mean JSON: of several, the most
// specific one decides.
var specificity = map[string]int{"*/*": 1, "application/*": 2, "application/problem+json": 3, "application/json": 4}

func takesJSON(accept []string) bool {
	all := strings.TrimSpace(strings.Join(accept, ","))
	if all == "" {
		return true
	}
	rank, takes := 0, false
	for entry := range strings.SplitSeq(all, ",") {
		kind, params, err := mime.ParseMediaType(entry)
		if err != nil || specificity[kind] <= rank {
			continue
		}
		rank, takes = specificity[kind], positive(params["q"])
	}
	return takes
}

func positive(q string) bool {
	if q == "" {
		return true
	}
	weight, err := strconv.ParseFloat(q, 64)
	return err == nil && weight > 0
}

// SPDX-License-Identifier: Apache-2.0

package httpapi

import (
	"encoding/json"

	"github.com/danielgtaylor/huma/v2"
)

// perhaps is an object, or null for none. The document says so by hand: of
// itself it knows no object that may be null.
type perhaps[T any] struct{ object *T }

// MarshalJSON writes the object, or null.
func (p perhaps[T]) MarshalJSON() ([]byte, error) { return json.Marshal(p.object) }

// Schema documents both.
func (perhaps[T]) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AnyOf: []*huma.Schema{r.Schema(typeOf[T](), true, ""), {Type: "null"}}}
}

// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// object is one JSON object of an answer.
type object = map[string]any

// base is Graph's address as this simulator serves it.
func (c *graphCall) base() string { return c.s.kit.URL + graphHost + "/v1.0" }

// context is the address in @odata.context.
func (c *graphCall) context(of string) string { return c.base() + "/$metadata#" + of }

// one answers a single object.
func (c *graphCall) one(status int, of string, o object) result {
	o = picked(o, c.selected())
	o["@odata.context"] = c.context(of + "/$entity")
	return result{status: status, body: o}
}

// many answers a collection in one page.
func (c *graphCall) many(of string, all []object) result {
	values := []object{}
	for _, o := range all {
		values = append(values, picked(o, c.selected()))
	}
	return result{status: http.StatusOK, body: object{"@odata.context": c.context(of), "value": values}}
}

func (c *graphCall) selected() []string {
	text := c.r.URL.Query().Get("$select")
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// picked keeps the selected properties, all where nothing was selected.
// Annotations stay.
func picked(o object, names []string) object {
	out := object{}
	for name, v := range o {
		keep := names == nil || strings.HasPrefix(name, "@") || slices.ContainsFunc(names, func(n string) bool {
			return strings.EqualFold(strings.TrimSpace(n), name)
		})
		if keep {
			out[name] = v
		}
	}
	return out
}

// page cuts one page of n out of all by $skiptoken, and returns the link to the
// next one, "" on the last.
func (c *graphCall) page(all []object, n int) ([]object, string) {
	from := skipped(c.r.URL.Query().Get("$skiptoken"))
	from = min(from, len(all))
	to := min(from+n, len(all))
	if to == len(all) {
		return all[from:], ""
	}
	q := c.r.URL.Query()
	q.Set("$skiptoken", "RFNwdAIAAQ"+base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(to))))
	return all[from:to], c.s.kit.URL + graphHost + c.r.URL.Path + "?" + readable(q)
}

// readable encodes a query with its dollar signs as Graph shows them.
func readable(q url.Values) string { return strings.ReplaceAll(q.Encode(), "%24", "$") }

func skipped(token string) int {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "RFNwdAIAAQ"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0
	}
	return n
}

// read decodes a request's JSON object.
func (c *graphCall) read() (object, *graphError) {
	raw, err := io.ReadAll(c.r.Body)
	if err != nil {
		return nil, errBody.of("")
	}
	in := object{}
	if json.Unmarshal(raw, &in) != nil {
		return nil, errBody.of("")
	}
	return in, nil
}

// only refuses a body with a property that the call does not take.
func only(in object, names ...string) *graphError {
	for name := range in {
		if !slices.Contains(names, name) && !strings.HasPrefix(name, "@odata.") {
			return errProperty.of(name)
		}
	}
	return nil
}

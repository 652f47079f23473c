// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

type object = map[string]any

func (c *graphCall) baseURL() string { return c.s.kit.URL + graphHost + "/v1.0" }

// contextURL returns the value of @odata.context for a path of the metadata.
func (c *graphCall) contextURL(path string) string { return c.baseURL() + "/$metadata#" + path }

func (c *graphCall) entity(status int, path string, o object) result {
	o = selectProperties(o, selectedProperties(c.r))
	o["@odata.context"] = c.contextURL(path + "/$entity")
	return result{status: status, body: o}
}

// collection returns a result with all objects in one page.
func (c *graphCall) collection(path string, objects []object) result {
	values := []object{}
	for _, o := range objects {
		values = append(values, selectProperties(o, selectedProperties(c.r)))
	}
	return result{status: http.StatusOK, body: object{"@odata.context": c.contextURL(path), "value": values}}
}

// selectedProperties returns the names in $select, or nil if $select is missing or empty.
func selectedProperties(r *http.Request) []string {
	if text := r.URL.Query().Get("$select"); text != "" {
		return strings.Split(text, ",")
	}
	return nil
}

// selectProperties returns the named properties of an object and its annotations. It returns all
// properties if names is nil.
func selectProperties(o object, names []string) object {
	result := object{}
	for name, v := range o {
		keep := names == nil || strings.HasPrefix(name, "@") || slices.ContainsFunc(names, func(n string) bool {
			return strings.EqualFold(strings.TrimSpace(n), name)
		})
		if keep {
			result[name] = v
		}
	}
	return result
}

// page returns at most n of the objects, from the offset in $skiptoken, and the link to the next
// page, which is "" for the last page.
func (c *graphCall) page(objects []object, n int) ([]object, string) {
	start := skipTokenOffset(c.r.URL.Query().Get("$skiptoken"))
	start = min(start, len(objects))
	end := min(start+n, len(objects))
	if end == len(objects) {
		return objects[start:], ""
	}
	return objects[start:end], pageLink(c.s.kit.URL+graphHost, c.r, end)
}

// skipTokenPrefix is the beginning of each $skiptoken, as at Graph. Exchange's links use it too.
const skipTokenPrefix = "RFNwdAIAAQ"

// pageLink returns the link to the page that begins with the row at index from.
func pageLink(host string, r *http.Request, from int) string {
	query := r.URL.Query()
	query.Set("$skiptoken", skipTokenPrefix+base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(from))))
	return host + r.URL.Path + "?" + encodeQuery(query)
}

// encodeQuery encodes a query as Graph does, without escaping dollar signs.
func encodeQuery(query url.Values) string { return strings.ReplaceAll(query.Encode(), "%24", "$") }

// skipTokenOffset returns the offset in a $skiptoken, or 0 if the token is not valid.
func skipTokenOffset(token string) int {
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, skipTokenPrefix))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return 0
	}
	return max(0, n)
}

func (c *graphCall) readBody() (object, *graphError) {
	raw, err := io.ReadAll(c.r.Body)
	if err != nil {
		return nil, errBody.with("")
	}
	body := object{}
	if json.Unmarshal(raw, &body) != nil {
		return nil, errBody.with("")
	}
	return body, nil
}

// rejectUnknown returns errProperty if the body has a property that is not in names. Annotations
// (@odata.…) are allowed.
func rejectUnknown(body object, names ...string) *graphError {
	for name := range body {
		if !slices.Contains(names, name) && !strings.HasPrefix(name, "@odata.") {
			return errProperty.with(name)
		}
	}
	return nil
}

// clause is one comparison of a $filter.
type clause struct {
	property, operator, value string
}

// The forms that a $filter can have.
var (
	comparisonPattern = regexp.MustCompile(`^([A-Za-z]+(?:/\$count)?)\s+(eq|ne)\s+(?:'((?:[^']|'')*)'|(true|false|null|\d+))$`)
	functionPattern   = regexp.MustCompile(`^(?i)(startswith|endswith)\(\s*([A-Za-z]+)\s*,\s*'((?:[^']|'')*)'\s*\)$`)
	andSeparator      = regexp.MustCompile(`\s+and\s+`)
)

// parseFilter parses comparisons with eq and ne, startswith and endswith, joined by "and". tenantry
// uses no other form. For any other form, parseFilter returns errFilter.
func parseFilter(text string) ([]clause, *graphError) {
	if text == "" {
		return nil, nil
	}
	var clauses []clause
	for _, element := range andSeparator.Split(strings.TrimSpace(text), -1) {
		if m := comparisonPattern.FindStringSubmatch(strings.Trim(element, "()")); m != nil {
			clauses = append(clauses, clause{m[1], m[2], strings.ReplaceAll(m[3], "''", "'") + m[4]})
			continue
		}
		m := functionPattern.FindStringSubmatch(element)
		if m == nil {
			return nil, errFilter.with(element)
		}
		clauses = append(clauses, clause{m[2], strings.ToLower(m[1]), strings.ReplaceAll(m[3], "''", "'")})
	}
	return clauses, nil
}

// needsEventualConsistency reports whether Graph requires ConsistencyLevel: eventual for the
// clause.
func (c clause) needsEventualConsistency() bool {
	return c.operator == "endswith" || c.operator == "ne" || strings.HasSuffix(c.property, "/$count")
}

// matches reports whether the clause is true for an object. Case does not matter, as in the
// directory.
func (c clause) matches(o object) bool {
	have := strings.ToLower(fmt.Sprint(o[c.property]))
	if list, ok := strings.CutSuffix(c.property, "/$count"); ok {
		items, _ := o[list].([]object)
		have = fmt.Sprint(len(items))
	}
	want := strings.ToLower(c.value)
	switch c.operator {
	case "eq":
		return have == want
	case "ne":
		return have != want
	case "startswith":
		return strings.HasPrefix(have, want)
	}
	return strings.HasSuffix(have, want)
}

// applyFilter returns the objects that match all clauses, or errFilter if a clause uses a property
// that is not in known.
func applyFilter(objects []object, clauses []clause, known ...string) ([]object, *graphError) {
	for _, c := range clauses {
		if !slices.Contains(known, c.property) {
			return nil, errFilter.with(c.property)
		}
	}
	matching := []object{}
	for _, o := range objects {
		if !slices.ContainsFunc(clauses, func(c clause) bool { return !c.matches(o) }) {
			matching = append(matching, o)
		}
	}
	return matching, nil
}

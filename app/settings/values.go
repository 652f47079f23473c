// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/knadh/koanf/v2"
)

// checkValues returns an error for the first value that does not have the type of its setting. The
// error says which values are valid. An error of Unmarshal would not. Unmarshal would also misread
// some values: `drain_time: 25` as 25 nanoseconds, and an empty TENANTRY_WORKER as false.
func (r Reading) checkValues(merged *koanf.Koanf) error {
	for field := range Fields() {
		key := field.Tag.Get("koanf")
		if field.Type.Kind() == reflect.Map {
			continue
		}
		if problem := typeProblem(field, merged.Get(key)); merged.Exists(key) && problem != "" {
			return Problem{key, problem + r.setBy(key)}
		}
	}
	for _, key := range merged.Keys() {
		if strings.HasPrefix(key, providersSetting+".") && isList(merged.Get(key)) {
			return Problem{key, "must be one value, not a list" + r.setBy(key)}
		}
	}
	return nil
}

// typeProblem returns what is wrong with a value for a setting, or "". It never quotes the value of
// a setting that can hold a secret.
func typeProblem(field reflect.StructField, value any) string {
	text := ""
	if value != nil {
		text = fmt.Sprint(value)
	}
	var err error
	explanation := ""
	switch {
	case field.Type == reflect.TypeFor[time.Duration]():
		_, err = time.ParseDuration(text)
		explanation = "is not a time; write a number with a unit, such as 30s or 5m"
	case field.Type.Kind() == reflect.Bool:
		_, err = strconv.ParseBool(text)
		explanation = "is neither true nor false"
	case field.Type.Kind() == reflect.Int:
		_, err = strconv.ParseInt(text, 0, 0)
		explanation = "is not a whole number, such as 10"
	case field.Type.Kind() == reflect.String && isList(value):
		return "must be one value, not a list"
	}
	if err != nil {
		return fmt.Sprintf("%q %s", text, explanation)
	}
	return ""
}

func isList(value any) bool { return value != nil && reflect.TypeOf(value).Kind() == reflect.Slice }

// setBy returns the end of an error message that says where the value of a setting comes from, or
// "" for a default.
func (r Reading) setBy(key string) string {
	switch r.Sources[key] {
	case sourceVariable:
		return " (set by " + VariableName(key) + ")"
	case sourceFlag:
		return " (set by --" + strings.ReplaceAll(key, "_", "-") + ")"
	case sourceFile:
		return " (set in the settings file)"
	default:
		return ""
	}
}

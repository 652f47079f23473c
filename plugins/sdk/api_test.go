// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"flag"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tenantry/tenantry/plugins/proto"
)

const repository = "github.com/tenantry/tenantry/"

// promisedPackages are the packages whose exported API stays compatible (see docs/sdk-promise.md).
var promisedPackages = []string{repository + "plugins/sdk", repository + "plugins/sdk/simulate", repository + "plugins/conformance"}

var update = flag.Bool("update", false, "add new lines to the files of testdata; lines that a new version breaks are deleted by hand")

// TestExportedAPIIsKept compares the exported API of the SDK with testdata/api.txt. It fails when
// something was removed or changed, which breaks plugins, and when something new is not in the
// file.
func TestExportedAPIIsKept(t *testing.T) {
	compareWithPromise(t, "testdata/api.txt", exportedAPI(t, promisedPackages))
}

// TestProtocolIsKept compares the messages and services of the protocol with testdata/protocol.txt.
func TestProtocolIsKept(t *testing.T) {
	compareWithPromise(t, "testdata/protocol.txt", protocol())
}

func compareWithPromise(t *testing.T, path string, current []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var recorded []string
	for line := range strings.Lines(string(text)) {
		recorded = append(recorded, strings.TrimSuffix(line, "\n"))
	}
	broken, added := difference(recorded, current), difference(current, recorded)
	if *update && len(added) > 0 {
		lines := slices.Sorted(slices.Values(append(recorded, added...)))
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		added = nil
	}
	for _, line := range broken {
		t.Errorf("removed or changed, which breaks plugins: %s", line)
	}
	for _, line := range added {
		t.Errorf("new, run `go test ./plugins/sdk -update`: %s", line)
	}
	if len(broken) > 0 {
		t.Errorf("delete these lines from %s only in a version that may break plugins, see docs/sdk-promise.md", path)
	}
	if len(recorded) < 50 {
		t.Errorf("%s has only %d lines, want at least 50: the dump of the API is incomplete", path, len(recorded))
	}
}

// difference returns the lines of a that b does not have.
func difference(a, b []string) (missing []string) {
	for _, line := range a {
		if !slices.Contains(b, line) {
			missing = append(missing, line)
		}
	}
	return missing
}

// TestDifferencesOfAnAPIAreFound counts the recorded lines that a change of a package breaks.
func TestDifferencesOfAnAPIAreFound(t *testing.T) {
	before := []string{"func sdk.F(string) error", "type sdk.I interface{A()}", "type sdk.S struct", "field sdk.S.A string"}
	for change, tc := range map[string]struct {
		after  []string
		broken int
	}{
		"a new field":                   {append(slices.Clone(before), "field sdk.S.B int"), 0},
		"a removed function":            {before[1:], 1},
		"a changed parameter":           {append([]string{"func sdk.F(int) error"}, before[1:]...), 1},
		"a new method of an interface":  {append([]string{"type sdk.I interface{A(); B()}"}, slices.Delete(slices.Clone(before), 1, 2)...), 1},
		"a field with a different type": {append(slices.Clone(before[:3]), "field sdk.S.A int"), 1},
	} {
		if broken := difference(before, tc.after); len(broken) != tc.broken {
			t.Errorf("%s: broken are %q, want %d lines", change, broken, tc.broken)
		}
	}
}

// exportedAPI returns sorted lines. There is one line for each exported name of the packages. The
// exported types of the repository that the declarations of these names use have lines too.
// Exported fields and methods have their own lines. Only an interface is one line with all its
// methods, because a new method breaks the types that implement the interface.
func exportedAPI(t *testing.T, packages []string) []string {
	t.Helper()
	files := exportFiles(t, packages)
	imports := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	dump := apiDump{lines: map[string]bool{}, seen: map[*types.TypeName]bool{}}
	for _, path := range packages {
		pkg, err := imports.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pkg.Scope().Names() {
			if object := pkg.Scope().Lookup(name); object.Exported() {
				dump.addObject(object)
			}
		}
	}
	return slices.Sorted(maps.Keys(dump.lines))
}

// exportFiles returns the paths of the compiler's export data, keyed by import path. It covers the
// packages and all packages that they import.
func exportFiles(t *testing.T, packages []string) map[string]string {
	t.Helper()
	out, err := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, packages...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files
}

// apiDump collects the lines of exportedAPI.
type apiDump struct {
	lines map[string]bool
	seen  map[*types.TypeName]bool
}

func qualifier(p *types.Package) string { return strings.TrimPrefix(p.Path(), repository) }

func (dump apiDump) add(format string, args ...any) { dump.lines[fmt.Sprintf(format, args...)] = true }

func (dump apiDump) addObject(object types.Object) {
	name := qualifier(object.Pkg()) + "." + object.Name()
	switch object := object.(type) {
	case *types.Const:
		dump.add("const %s %s = %s", name, types.TypeString(object.Type(), qualifier), object.Val())
	case *types.Var:
		dump.add("var %s %s", name, types.TypeString(object.Type(), qualifier))
	case *types.Func:
		dump.add("func %s%s", name, strings.TrimPrefix(types.TypeString(object.Type(), qualifier), "func"))
	case *types.TypeName:
		dump.addType(object)
		return
	}
	dump.addUsedTypes(object.Type())
}

func (dump apiDump) addType(typeName *types.TypeName) {
	if dump.seen[typeName] {
		return
	}
	dump.seen[typeName] = true
	name := qualifier(typeName.Pkg()) + "." + typeName.Name()
	if typeName.IsAlias() {
		target := types.Unalias(typeName.Type())
		dump.add("type %s = %s", name, types.TypeString(target, qualifier))
		dump.addUsedTypes(target)
		return
	}
	switch underlying := typeName.Type().Underlying().(type) {
	case *types.Struct:
		dump.add("type %s struct", name)
		for field := range underlying.Fields() {
			if field.Exported() {
				dump.add("field %s.%s %s", name, field.Name(), types.TypeString(field.Type(), qualifier))
				dump.addUsedTypes(field.Type())
			}
		}
	default:
		dump.add("type %s %s", name, types.TypeString(underlying, qualifier))
		dump.addUsedTypes(underlying)
	}
	if named, ok := typeName.Type().(*types.Named); ok {
		for method := range named.Methods() {
			if method.Exported() {
				dump.add("method %s.%s%s", name, method.Name(), strings.TrimPrefix(types.TypeString(method.Type(), qualifier), "func"))
				dump.addUsedTypes(method.Type())
			}
		}
	}
}

// addUsedTypes adds lines for the types of this repository that a type consists of.
func (dump apiDump) addUsedTypes(used types.Type) {
	switch t := used.(type) {
	case *types.Alias:
		dump.addUsedTypes(types.Unalias(t))
	case *types.Named:
		if pkg := t.Obj().Pkg(); pkg != nil && strings.HasPrefix(pkg.Path(), repository) && t.Obj().Exported() {
			dump.addType(t.Obj())
		}
	case *types.Pointer:
		dump.addUsedTypes(t.Elem())
	case *types.Slice:
		dump.addUsedTypes(t.Elem())
	case *types.Map:
		dump.addUsedTypes(t.Key())
		dump.addUsedTypes(t.Elem())
	case *types.Chan:
		dump.addUsedTypes(t.Elem())
	case *types.Signature:
		for _, tuple := range []*types.Tuple{t.Params(), t.Results()} {
			for v := range tuple.Variables() {
				dump.addUsedTypes(v.Type())
			}
		}
	case *types.Interface:
		for method := range t.Methods() {
			dump.addUsedTypes(method.Type())
		}
	}
}

// protocol returns sorted lines, one for each message, field, value and method of the .proto files.
func protocol() []string {
	var lines []string
	for _, file := range []protoreflect.FileDescriptor{
		proto.File_plugins_proto_plugin_proto, proto.File_plugins_proto_mail_proto, proto.File_plugins_proto_dns_proto, proto.File_plugins_proto_sending_proto, proto.File_plugins_proto_options_proto,
	} {
		lines = append(lines, messageLines(file.Messages())...)
		lines = append(lines, enumLines(file.Enums())...)
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				lines = append(lines, fmt.Sprintf("rpc %s(%s) returns (%s) streams %v %v", m.FullName(), m.Input().FullName(), m.Output().FullName(), m.IsStreamingClient(), m.IsStreamingServer()))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func messageLines(descriptors protoreflect.MessageDescriptors) (lines []string) {
	for i := range descriptors.Len() {
		message := descriptors.Get(i)
		lines = append(lines, fmt.Sprintf("message %s", message.FullName()))
		for j := range message.Fields().Len() {
			field := message.Fields().Get(j)
			fieldType := field.Kind().String()
			switch {
			case field.Message() != nil:
				fieldType = string(field.Message().FullName())
			case field.Enum() != nil:
				fieldType = string(field.Enum().FullName())
			}
			lines = append(lines, fmt.Sprintf("field %s = %d %s %s", field.FullName(), field.Number(), field.Cardinality(), fieldType))
		}
		lines = append(lines, messageLines(message.Messages())...)
		lines = append(lines, enumLines(message.Enums())...)
	}
	return lines
}

func enumLines(descriptors protoreflect.EnumDescriptors) (lines []string) {
	for i := range descriptors.Len() {
		values := descriptors.Get(i).Values()
		for j := range values.Len() {
			lines = append(lines, fmt.Sprintf("value %s.%s = %d", descriptors.Get(i).FullName(), values.Get(j).Name(), values.Get(j).Number()))
		}
	}
	return lines
}

// SPDX-License-Identifier: Apache-2.0

// Command chart checks a Helm chart as `helm lint` and `helm template` do. It decodes the rendered
// documents with the types of Kubernetes, so that an unknown field is an error (except in
// foreignKinds). It is a separate module, because the rest of the project does not need its
// dependencies.
//
//	chart FOLDER [VALUES.yaml …]
//
// It writes the rendered documents to standard output, as a JSON array.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	release   = "tenantry"
	namespace = "mail"
	// oldestKubernetes is the oldest release of Kubernetes that the chart supports.
	oldestKubernetes = "v1.27.0"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: chart FOLDER [VALUES.yaml …]")
		os.Exit(2)
	}
	objects, err := check(os.Args[1], os.Args[2:])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(objects)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func check(folder string, files []string) ([]map[string]any, error) {
	values := map[string]any{}
	for _, file := range files {
		fileValues, err := chartutil.ReadValuesFile(file)
		if err != nil {
			return nil, err
		}
		values = chartutil.CoalesceTables(fileValues, values)
	}
	version, err := chartutil.ParseKubeVersion(oldestKubernetes)
	if err != nil {
		return nil, err
	}
	linted := lint.AllWithKubeVersion(folder, values, namespace, version)
	for _, message := range linted.Messages {
		if message.Severity >= support.WarningSev {
			err = errors.Join(err, message)
		}
	}
	if err != nil {
		return nil, err
	}
	loaded, err := loader.Load(folder)
	if err != nil {
		return nil, err
	}
	return render(loaded, values, version)
}

func render(loaded *chart.Chart, values map[string]any, version *chartutil.KubeVersion) ([]map[string]any, error) {
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	renderValues, err := chartutil.ToRenderValues(loaded, values, chartutil.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, capabilities)
	if err != nil {
		return nil, err
	}
	rendered, err := engine.Render(loaded, renderValues)
	if err != nil {
		return nil, err
	}
	objects := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		if path.Ext(name) != ".yaml" {
			continue // NOTES.txt and templates that define only functions
		}
		for document := range strings.SplitSeq("\n"+rendered[name], "\n---") {
			object, err := decode(document)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if object != nil {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

// foreignKinds lists the kinds of objects that Kubernetes itself does not define. decode cannot
// check their fields.
var foreignKinds = []string{"ServiceMonitor"}

func decode(document string) (map[string]any, error) {
	var object map[string]any
	if err := yaml.UnmarshalStrict([]byte(document), &object); err != nil || object == nil {
		return nil, err
	}
	kind, _ := object["kind"].(string)
	if slices.Contains(foreignKinds, kind) {
		return object, nil
	}
	strict := serializer.NewSerializerWithOptions(serializer.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		serializer.SerializerOptions{Yaml: true, Strict: true})
	_, _, err := strict.Decode([]byte(document), nil, nil)
	return object, err
}

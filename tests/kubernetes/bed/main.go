// The API server of Kubernetes and its store in one program: the first argument says which of the two to
// be. There is no kubelet and no controller; a test plays them.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	which := ""
	if len(os.Args) > 1 {
		which = os.Args[1]
	}
	switch which {
	case "etcd":
		etcdmain.Main(os.Args[1:])
	case "kube-apiserver":
		os.Args = os.Args[1:]
		os.Exit(cli.Run(app.NewAPIServerCommand()))
	default:
		println("usage: bed etcd|kube-apiserver FLAGS")
		os.Exit(2)
	}
}

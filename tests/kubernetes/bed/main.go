// The API server of Kubernetes, its store, its scheduler and its controllers in one program: the first
// argument says which of them to be. There is no kubelet; a test plays it.
package main

import (
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
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
		run(apiserver.NewAPIServerCommand())
	case "kube-scheduler":
		run(scheduler.NewSchedulerCommand())
	case "kube-controller-manager":
		run(controllers.NewControllerManagerCommand())
	default:
		println("usage: bed etcd|kube-apiserver|kube-scheduler|kube-controller-manager FLAGS")
		os.Exit(2)
	}
}

func run(command *cobra.Command) {
	os.Args = os.Args[1:]
	os.Exit(cli.Run(command))
}

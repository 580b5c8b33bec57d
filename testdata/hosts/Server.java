import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Collection;

import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;
import org.eclipse.jgit.http.server.GitServlet;
import org.eclipse.jgit.lib.Repository;
import org.eclipse.jgit.transport.ReceiveCommand;
import org.eclipse.jgit.transport.ReceivePack;
import org.eclipse.jgit.transport.resolver.FileResolver;

/** Serves the repositories below a directory with JGit's servlet in Jetty: DIRECTORY PORT. */
class JGitServer {
	public static void main(String[] args) throws Exception {
		GitServlet git = new GitServlet();
		git.setRepositoryResolver(new FileResolver<>(new File(args[0]), true));
		git.setReceivePackFactory((request, repository) -> {
			ReceivePack receive = new ReceivePack(repository);
			receive.setPreReceiveHook((pack, commands) -> rules(repository, commands));
			return receive;
		});
		Server server = new Server();
		ServerConnector connector = new ServerConnector(server);
		connector.setHost("127.0.0.1");
		connector.setPort(Integer.parseInt(args[1]));
		server.addConnector(connector);
		ServletContextHandler context = new ServletContextHandler();
		context.addServlet(new ServletHolder(git), "/*");
		server.setHandler(context);
		System.out.println("JGit " + Repository.class.getPackage().getImplementationVersion());
		server.start();
		server.join();
	}

	/** The tests' own rules, in the place of hooks, which JGit does not run over HTTP. */
	static void rules(Repository repository, Collection<ReceiveCommand> commands) {
		File directory = repository.getDirectory();
		File hold = new File(directory, "muster-hold");
		File refuse = new File(directory, "muster-refuse");
		try {
			if (hold.exists()) {
				new File(directory, "muster-held").createNewFile();
				while (hold.exists()) {
					Thread.sleep(50);
				}
			}
			if (refuse.exists()) {
				String words = new String(Files.readAllBytes(refuse.toPath())).trim();
				for (ReceiveCommand c : commands) {
					c.setResult(ReceiveCommand.Result.REJECTED_OTHER_REASON, words);
				}
			}
		} catch (IOException | InterruptedException e) {
			throw new RuntimeException(e);
		}
	}
}

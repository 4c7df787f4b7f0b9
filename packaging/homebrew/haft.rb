class Haft < Formula
  desc "Tools for language-model agents: call them, judge them, run a model with them"
  homepage "@RELEASES@"
  url "@RELEASES@/@ARCHIVE@"
  version "@VERSION@"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  # The only system it is built for; elsewhere brew says so instead of missing an address.
  depends_on arch: :x86_64
  depends_on :linux

  def install
    bin.install "haft"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/haft"
    zsh_completion.install "completions/_haft"
    fish_completion.install "completions/haft.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/haft --version")
    system bin/"haft", "demo", "--fast"
  end
end

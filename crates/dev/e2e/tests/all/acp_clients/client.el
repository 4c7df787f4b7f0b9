;;; A whole turn through acp.el: a question, a diff, and a buffer that is not saved. -*- lexical-binding: t -*-

(require 'acp)
(require 'json)
(require 'map)

(let* ((cwd default-directory)
       (buffer (find-file-noselect (expand-file-name "a.txt" cwd)))
       (words "") (asked 0) (diffs ()) (errors ())
       (client (acp-make-client :command (getenv "HAFT") :command-params '("acp") :context-buffer (current-buffer))))
  ;; What the person typed and did not save.
  (with-current-buffer buffer
    (goto-char (point-max))
    (insert "typed\n"))
  (acp-subscribe-to-errors :client client :on-error (lambda (it) (push (format "%s" it) errors)))
  (acp-subscribe-to-notifications
   :client client
   :on-notification
   (lambda (it)
     (let ((update (map-nested-elt it '(params update))))
       (pcase (map-elt update 'sessionUpdate)
         ("agent_message_chunk" (setq words (concat words (map-nested-elt update '(content text)))))
         ("tool_call_update"
          (when (equal (map-elt update 'status) "completed")
            (seq-doseq (part (map-elt update 'content))
              (when (equal (map-elt part 'type) "diff")
                (push (map-elt part 'newText) diffs)))))))))
  (acp-subscribe-to-requests
   :client client
   :on-request
   (lambda (it)
     (let ((id (map-elt it 'id)) (path (map-nested-elt it '(params path))))
       (acp-send-response
        :client client
        :response
        (pcase (map-elt it 'method)
          ("session/request_permission"
           (setq asked (1+ asked))
           (acp-make-session-request-permission-response :request-id id :option-id "allow-once"))
          ("fs/read_text_file"
           (with-current-buffer (find-file-noselect path)
             (acp-make-fs-read-text-file-response :request-id id :content (buffer-substring-no-properties (point-min) (point-max)))))
          ("fs/write_text_file"
           (with-current-buffer (find-file-noselect path)
             (erase-buffer)
             (insert (map-nested-elt it '(params content)))
             (let ((save-silently t)) (save-buffer))
             (acp-make-fs-write-text-file-response :request-id id))))))))
  (acp-send-request
   :client client :sync t
   :request (acp-make-initialize-request :protocol-version 1 :read-text-file-capability t :write-text-file-capability t))
  (let* ((made (acp-send-request :client client :sync t :request (acp-make-session-new-request :cwd cwd)))
         (session (map-elt made 'sessionId))
         (end (acp-send-request
               :client client :sync t
               :request (acp-make-session-prompt-request :session-id session :prompt `[((type . "text") (text . "go"))]))))
    (princ (json-encode `((stopReason . ,(map-elt end 'stopReason)) (words . ,words) (asked . ,asked)
                          (diffs . ,(vconcat diffs)) (errors . ,(vconcat errors)))))
    (terpri))
  (acp-shutdown :client client))
